package bridge

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/testnet"
	"achbridge/testnet/need"
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

func TestAllowanceIsABurstAndThenOneInEvery(t *testing.T) {
	a := allowance{burst: 3, every: time.Second}
	for i := range 3 {
		if !a.take(0) {
			t.Errorf("take %d is refused", i+1)
		}
	}
	if a.take(0) {
		t.Error("a fourth is there at once")
	}
	if !a.take(time.Second) || a.take(time.Second) {
		t.Error("after a second there is not exactly one")
	}
	if a.giveBack(); !a.take(time.Second) {
		t.Error("what was given back is not there")
	}
}

func TestRealRobotIsFoundBesideForgedAnnouncements(t *testing.T) {
	for what, forge := range map[string]func() []Peer{
		"one source": func() []Peer { return forged("10.80.76.66", "krang", 0, 1000) },
		"ten sources": func() (list []Peer) {
			for i := range 10 {
				list = append(list, forged(fmt.Sprint("10.80.76.", 60+i), "krang", 100*i, 100)...)
			}
			return list
		},
	} {
		t.Run(what, func(t *testing.T) {
			if what == "one source" {
				need.Long(t)
			}
			inWorld(t, func(w *world) {
				pc, robot := w.host("pc", wire10ms), w.host("krang", wire10ms)
				robot.run(Config{})
				robot.channel("imu", 4, 64).put(1, 64)
				pc.run(Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "*"}}})
				count := w.strangers()
				lies := forge()
				pc.node.SetPeers(lies)
				time.Sleep(5 * time.Second) // the budget is used up
				pc.node.SetPeers(append(lies, robot.announces()))
				t.Logf("found after %v", pc.follows("krang.imu", 1, 3*time.Second))
				time.Sleep(15 * time.Second)
				packets, hosts := count()
				t.Logf("%d packets to %d addresses of others in 20 s", packets, hosts)
				const most = 8 + 4*21 // addresses: eight at once, then four a second
				if hosts > most || packets > 10*most {
					t.Errorf("got %d packets to %d addresses of others in 20 s, want at most %d addresses, 10 packets each", packets, hosts, most)
				}
				pc.node.call(func() {
					dials := 0
					for _, p := range pc.node.peers {
						if p.stop != nil {
							dials++
						}
					}
					if most := int(dialTimeout/claimEvery) + 1; dials > most {
						t.Errorf("got %d dials at once, want at most %d", dials, most)
					}
				})
				if n := strings.Count(pc.log.String(), "cannot be reached"); n > claimLines+3 {
					t.Errorf("got %d lines in the log, want at most %d", n, claimLines+3)
				}
			})
		})
	}
}

// The source that a robot shares with others, because they have forged it or because a
// reflector stands between, does not keep it out: only the order changes.
func TestClaimsOfOneSourceAreDialledInTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		pc, robot := w.host("pc", wire10ms), w.host("krang", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "krang", Channel: "*"}}})
		p := robot.announces()
		pc.node.SetPeers(append(forged(p.Source, "krang", 0, 16), p))
		t.Logf("found after %v", pc.follows("krang.imu", 1, 5*time.Second))
	})
}

func TestListedPeersWaitForNoBudget(t *testing.T) {
	inWorld(t, func(w *world) {
		pc, listed := w.host("pc", wire10ms), w.host("arm", wire10ms)
		listed.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "*"}}})
		all := forged("10.80.76.66", "krang", 0, 1000)
		pc.node.SetPeers(all)
		time.Sleep(5 * time.Second)
		listed.run(Config{})
		pc.node.SetPeers(append(all, asPeers([]*host{listed})...))
		pc.follows("arm.imu", 1, 100*time.Millisecond)
	})
}

// Whoever claims to be a node that is linked is not remembered beyond his announcement.
func TestClaimsThatAreOverAreForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		pc, robot := w.host("pc", wire10ms), w.host("krang", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 16, 64).streams(64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "*"}}})
		pc.node.SetPeers([]Peer{robot.announces()})
		pc.freshWithin(time.Second, "krang.imu")
		for i := range 100 {
			lie := robot.announces()
			lie.Source = fmt.Sprint("10.80.77.", i)
			pc.node.SetPeers([]Peer{lie})
		}
		pc.node.call(func() {
			if got := len(pc.node.peers); got > 2 {
				t.Errorf("got %d peers, want the last claim, and what is known of the robot itself", got)
			}
		})
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
