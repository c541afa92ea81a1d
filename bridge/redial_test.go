package bridge

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/testnet"
)

// handshakes counts the packets of handshakes that a network carries.
type handshakes struct {
	mu      sync.Mutex
	dials   map[string]bool // the handshakes so far: sender, and the id that the dialler has chosen
	at      []time.Time     // when each began
	packets int
	bytes   int
}

// handshakes counts from now on.
func (w *world) handshakes() *handshakes {
	c := &handshakes{dials: map[string]bool{}}
	w.net.Tap(func(e testnet.Event) {
		if e.What == testnet.WhatSent {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.add(e)
		}
	})
	return c
}

// add counts a packet. QUIC's packets of a handshake have a long header (RFC 9000, section 17.2), those of SCTP a shim
// (package sctp). A dialler's first packets are Initial packets, or of the kind initial.
func (c *handshakes) add(e testnet.Event) {
	const longHeader, typeMask, shim, initial = 0x80, 0x30, 0xac, 1
	b, id := e.Payload, []byte(nil)
	switch {
	case len(b) > 10 && b[0] == shim:
		if b[1] == initial {
			id = b[2:10]
		}
	case len(b) > 30 && b[0]&longHeader != 0:
		if b[0]&typeMask == 0 && b[5] > 4 { // quic-go's servers have connection ids of 4 bytes
			id = b[6 : 6+b[5]]
		}
	default:
		return
	}
	c.packets++
	c.bytes += len(b) + testnet.Overhead4
	if key := fmt.Sprintf("%v %x", e.From, id); id != nil && !c.dials[key] {
		c.dials[key] = true
		c.at = append(c.at, time.Now())
	}
}

func (c *handshakes) begun() (at []time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(at, c.at...)
}

// A radio that fades still delivers, 1500 bytes a second. Handshakes would fill it.
func TestFadeCausesNoHandshakes(t *testing.T) {
	for _, over := range overs {
		t.Run(over, func(t *testing.T) {
			inWorld(t, func(w *world) {
				radio := testnet.Params{Delay: 20 * time.Millisecond, Rate: 7e6, Queue: 2 << 20}
				robot, pc := w.host("robot", radio), w.host("pc", radio)
				robot.over, pc.over = over, over
				robot.run(Config{})
				pc.run(allOfTheRobot)
				pc.node.SetPeers([]Peer{robot.asPeer("")})
				robot.node.SetPeers([]Peer{pc.asPeer("")})
				robot.channel("imu", 16, 1000).streams(1000)
				pc.freshWithin(10*time.Second, "robot.imu")
				time.Sleep(settled)
				counted := w.handshakes()
				w.change("robot", "rate=12kbit")
				w.change("pc", "rate=12kbit")
				time.Sleep(20 * time.Second)
				if counted.packets > 0 {
					t.Errorf("got %d packets of handshakes with %d bytes in 20 s, want none", counted.packets, counted.bytes)
				}
				if links := pc.node.Status().Links; len(links) != 1 {
					t.Errorf("got %d links, want 1", len(links))
				}
			})
		})
	}
}

func TestSilenceCausesFewHandshakes(t *testing.T) {
	for _, over := range overs {
		t.Run(over, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, _ := w.redialling(over)
				counted := w.handshakes()
				w.change("robot", "cut")
				began := time.Now()
				time.Sleep(30 * time.Second)
				var got []string
				want := []time.Duration{1, 2, 4, 8, 12, 16, 20, 24, 28}
				list := counted.begun()
				for i, at := range list {
					d := at.Sub(began)
					got = append(got, d.Round(10*time.Millisecond).String())
					if i < len(want) && (d < want[i]*time.Second-10*time.Millisecond || d > want[i]*time.Second+6*tick) {
						t.Errorf("handshake %d began after %v, want %v s", i+1, d, int(want[i]))
					}
				}
				if len(list) > len(want) || len(list) < len(want)-1 {
					t.Errorf("got handshakes after %v, want %d", got, len(want))
				}
				if n := len(robot.node.Status().Links); n != 0 {
					t.Errorf("the robot has %d links, want none", n)
				}
			})
		})
	}
}

// redialling returns a PC that mirrors a robot's stream over one transport. Only the PC dials.
func (w *world) redialling(over string) (robot, pc *host) {
	w.t.Helper()
	robot, pc = w.host("robot", wire10ms), w.host("pc", wire10ms)
	robot.over, pc.over = over, over
	robot.run(Config{})
	pc.run(allOfTheRobot)
	pc.node.SetPeers([]Peer{robot.asPeer("")})
	robot.channel("imu", 16, 64).streams(64)
	pc.freshWithin(10*time.Second, "robot.imu")
	time.Sleep(settled)
	return robot, pc
}

// restarts cuts the network of h, ends its node, and starts it again after outage.
func (h *host) restarts(outage time.Duration) {
	h.w.change(h.name, "cut")
	h.stop()
	time.Sleep(outage)
	h.w.change(h.name, "up")
	h.run(h.cfg, h.dials...)
}

// Without discovery only the handshakes, and the resets that a restarted host answers with, find the host.
func TestRestartedPeerIsFoundWithoutDiscovery(t *testing.T) {
	limits := map[time.Duration]time.Duration{
		100 * time.Millisecond: 2 * time.Second,
		900 * time.Millisecond: 2 * time.Second,
		3 * time.Second:        5 * time.Second,
		9 * time.Second:        5 * time.Second,
		31 * time.Second:       5 * time.Second,
	}
	for _, over := range overs {
		for outage, limit := range limits {
			t.Run(fmt.Sprint(over, " ", outage), func(t *testing.T) {
				inWorld(t, func(w *world) {
					robot, pc := w.redialling(over)
					robot.restarts(outage)
					t.Logf("found after %v", pc.freshWithin(limit, "robot.imu"))
				})
			})
		}
	}
}

// An announcement brings the next handshake forward. A restarted host sends one.
func TestAnnouncedPeerIsFoundSoon(t *testing.T) {
	for _, over := range overs {
		for _, outage := range []time.Duration{5500 * time.Millisecond, 13500 * time.Millisecond} {
			t.Run(fmt.Sprint(over, " ", outage), func(t *testing.T) {
				inWorld(t, func(w *world) {
					robot, pc := w.redialling(over)
					robot.restarts(outage)
					pc.node.Announced(robot.id.String())
					t.Logf("found after %v", pc.freshWithin(time.Second, "robot.imu"))
				})
			})
		}
	}
}

// A host that says goodbye and returns is found by the handshake right after the goodbye, or by the next one.
func TestPeerIsFoundAfterItsGoodbye(t *testing.T) {
	for _, over := range overs {
		t.Run(over, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.redialling(over)
				robot.stop()
				time.Sleep(500 * time.Millisecond)
				robot.run(robot.cfg)
				t.Logf("found after %v", pc.freshWithin(2*time.Second, "robot.imu"))
			})
		})
	}
}

// Anybody can forge announcements, so many of them cause one handshake a second, and no link ends.
func TestAnnouncementFloodCausesOneHandshakePerSecond(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.redialling(overQUIC)
		counted := w.handshakes()
		flood := func(d time.Duration) {
			for range d / time.Millisecond {
				pc.node.Announced(robot.id.String())
				time.Sleep(time.Millisecond)
			}
		}
		ups := pc.said("link up")
		flood(5 * time.Second)
		if n := len(counted.begun()); n > 0 || pc.said("link up") != ups || pc.link().State != status.LinkUp {
			t.Errorf("while the link works: got %d handshakes, want none", n)
		}
		w.change("robot", "cut")
		flood(20 * time.Second)
		list := counted.begun()
		if len(list) < 10 || len(list) > 20 {
			t.Errorf("got %d handshakes in 20 s of silence, want one a second", len(list))
		}
		for i := range len(list) - 1 {
			if d := list[i+1].Sub(list[i]); d < time.Second-time.Millisecond {
				t.Errorf("got two handshakes within %v, want a second between them", d)
			}
		}
	})
}
