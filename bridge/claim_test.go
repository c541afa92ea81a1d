package bridge

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/testnet"
)

// elsewhere returns an address without a host.
func elsewhere(i int) transport.Addrs {
	return transport.Addrs{QUIC: &net.UDPAddr{IP: net.IPv4(10, 81, byte(i>>8), byte(i)), Port: port}}
}

// announces returns h as discovery announces it.
func (h *host) announces() Peer {
	p := asPeers([]*host{h})[0]
	p.Static, p.Source = false, h.addr().(*net.UDPAddr).IP.String()
	return p
}

// The tests of package peers check the order and the limit of dials. This test counts the packets
// that other hosts receive.
func TestForgedAnnouncementsCauseFewPackets(t *testing.T) {
	inWorld(t, func(w *world) {
		pc, robot := w.host("pc", wire10ms), w.host("krang", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "*"}}})
		var mu sync.Mutex
		packets, hosts := 0, map[netip.Addr]bool{}
		w.net.Tap(func(e testnet.Event) {
			mu.Lock()
			defer mu.Unlock()
			if to := e.To.Addr(); e.What == testnet.WhatSent && to.As4()[1] == 81 {
				packets, hosts[to] = packets+1, true
			}
		})
		var forged []Peer
		for i := range 1000 {
			forged = append(forged, Peer{Host: "krang", Node: fmt.Sprintf("%032x", i+1), Source: "10.80.76.66", Addrs: []transport.Addrs{elsewhere(2 * i), elsewhere(2*i + 1)}})
		}
		pc.node.SetPeers(forged)
		time.Sleep(5 * time.Second) // the limit of dials is used up
		pc.node.SetPeers(append(forged, robot.announces()))
		pc.follows("krang.imu", 1, 3*time.Second)
		time.Sleep(15 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		const most = 8 + 4*21 // addresses: eight at once, then four a second
		if len(hosts) > most || packets > 10*most {
			t.Errorf("got %d packets to %d addresses of others in 20 s, want at most %d addresses, 10 packets each", packets, len(hosts), most)
		}
	})
}

// A robot is announced on each interface, by both address families.
func TestTwentyRobotsLinkWithinTwoSeconds(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", wire10ms)
		var peers []Peer
		var robots []*host
		for i := range 20 {
			robot := w.host(fmt.Sprint("robot", i), wire10ms)
			robot.channel("imu", 4, 64).put(1, 64)
			robots = append(robots, robot.run(Config{}))
			p := robot.announces()
			peers = append(peers, p)
			p.Source = fmt.Sprint("fe80::", i+1, "%eth0")
			peers = append(peers, p)
		}
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "*"}}})
		pc.node.SetPeers(peers)
		begin := time.Now()
		for _, r := range robots {
			pc.follows(r.name+".imu", 1, 2*time.Second)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("got all after %v, want within 2 s", took)
		}
		t.Logf("all after %v", time.Since(begin))
	})
}
