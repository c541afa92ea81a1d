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

// elsewhere is an address at which nobody is.
func elsewhere(i int) transport.Addrs {
	return transport.Addrs{QUIC: &net.UDPAddr{IP: net.IPv4(10, 81, byte(i>>8), byte(i)), Port: port}}
}

// forged are claims of one source: nodes that there are not, of the name given.
func forged(source, name string, from, count int) (list []Peer) {
	for i := from; i < from+count; i++ {
		list = append(list, Peer{
			Host: name, Node: fmt.Sprintf("%032x", i+1), Source: source,
			Addrs: []transport.Addrs{elsewhere(2 * i), elsewhere(2*i + 1)},
		})
	}
	return list
}

// announces is h as discovery knows it.
func (h *host) announces() Peer {
	p := asPeers([]*host{h})[0]
	p.Static, p.Source = false, h.addr().(*net.UDPAddr).IP.String()
	return p
}

// strangers counts what is sent to addresses of nobody, and to how many.
func (w *world) strangers() (count func() (packets, hosts int)) {
	var mu sync.Mutex
	sent := map[netip.Addr]int{}
	w.net.Tap(func(e testnet.Event) {
		if to := e.To.Addr(); e.What == testnet.WhatSent && to.As4()[1] == 81 {
			mu.Lock()
			sent[to]++
			mu.Unlock()
		}
	})
	return func() (packets, hosts int) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range sent {
			packets += n
		}
		return packets, len(sent)
	}
}

// Package peers tests the order and the budget of the dials; this test counts what they cost other hosts.
func TestForgedAnnouncementsCostOthersLittle(t *testing.T) {
	inWorld(t, func(w *world) {
		pc, robot := w.host("pc", wire10ms), w.host("krang", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "*"}}})
		count := w.strangers()
		lies := forged("10.80.76.66", "krang", 0, 1000)
		pc.node.SetPeers(lies)
		time.Sleep(5 * time.Second) // the budget is used up
		pc.node.SetPeers(append(lies, robot.announces()))
		t.Logf("found after %v", pc.follows("krang.imu", 1, 3*time.Second))
		time.Sleep(15 * time.Second)
		packets, hosts := count()
		const most = 8 + 4*21 // addresses: eight at once, then four a second
		if hosts > most || packets > 10*most {
			t.Errorf("got %d packets to %d addresses of others in 20 s, want at most %d addresses, 10 packets each", packets, hosts, most)
		}
	})
}

// A robot is announced on each interface, by both address families.
func TestTwentyRobotsAreLinkedAsFastAsTheyAnswer(t *testing.T) {
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
