package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet/need"
	"achbridge/wire"
)

// Whatever happens on the way, a stamp is right within its error, and no command is valid longer than its sender meant.
func TestStampsStayTrue(t *testing.T) {
	routes := stampRoutes
	if testing.Short() {
		routes = []string{"relay that does not shift"} // it has the most parts
	}
	for _, route := range routes {
		for what, happens := range map[string]func(w *stampWorld){
			"the sender dies": func(w *stampWorld) {
				w.isPutting = false
				last := w.put[w.number][w.pc]
				w.runs(time.Second, 10*time.Millisecond)
				_, stamp, _ := w.newestStamp("goal")
				if now := w.pc.mono.now(); now < last+stampValid || stamp+stampValid > last+stampValid {
					w.t.Errorf("the last command expires at %v, want %v at most", stamp+stampValid, last+stampValid)
				}
				w.wantSteps(0)
			},
			"the robot's daemon restarts": func(w *stampWorld) { w.restart(w.robot) },
			"the PC's daemon restarts":    func(w *stampWorld) { w.restart(w.pc) },
			"the robot reboots": func(w *stampWorld) {
				w.robot.stop()
				for _, c := range w.channels {
					c.close()
				}
				w.robot.reboots(time.Minute)
				w.makeChannels()
				w.robot.run(w.robot.cfg)
				if w.hub != nil {
					w.robot.knows([]string{"pc"})
				}
				w.arrive(10 * time.Second)
				w.wantSteps(1)
			},
			"the robot was suspended": func(w *stampWorld) { w.sleeps(w.robot) },
			"the PC was suspended":    func(w *stampWorld) { w.sleeps(w.pc) },
			"the relay's daemon restarts": func(w *stampWorld) {
				if w.base != nil {
					w.restart(w.base)
				}
			},
			"the relay was suspended": func(w *stampWorld) {
				if w.base != nil {
					w.sleeps(w.base)
				}
			},
			"the relay was suspended for a moment": func(w *stampWorld) {
				for range 3 { // the links last
					if w.base != nil {
						w.base.mono.freeze(true)
						w.runs(300*time.Millisecond, 10*time.Millisecond)
						w.base.mono.freeze(false)
						w.woke()
						w.arrive(20 * time.Second)
					}
				}
			},
			"the link is cut": func(w *stampWorld) {
				w.cut(w.pc, true)
				w.runs(15*time.Second, 100*time.Millisecond)
				w.cut(w.pc, false)
				w.arrive(15 * time.Second)
				w.wantSteps(0)
			},
		} {
			t.Run(route+"/"+what, func(t *testing.T) {
				inStampWorld(t, route, func(w *stampWorld) {
					w.arrive(10 * time.Second)
					w.runs(time.Second, 10*time.Millisecond)
					happens(w)
					if w.isPutting {
						w.runs(time.Second, 10*time.Millisecond)
					}
					for _, name := range w.mirrors {
						if w.checked[name] < 50 {
							t.Errorf("%s: %d frames were checked, want 50 at least", name, w.checked[name])
						}
					}
				})
			})
		}
	}
}

// No frame that a relay put before the option changed there is taken for one of after.
func TestStampsStayTrueWhenRelayChangesOption(t *testing.T) {
	inStampWorld(t, "relay that does not shift", func(w *stampWorld) {
		w.arrive(10 * time.Second)
		w.change("base", "loss=50%") // catalogs are retransmitted, and frames overtake them
		for i := range 6 {
			w.relayShifts = i%2 == 0
			if err := w.base.node.Apply(w.relayConfig(w.relayShifts)); err != nil {
				t.Fatal(err)
			}
			w.runs(2*time.Second, 10*time.Millisecond)
			w.arrive(5 * time.Second)
		}
	})
}

// Two clocks that drift apart by 200 ppm. The relay names the changed offset seldom.
func TestStampsStayTrueWhileClocksDrift(t *testing.T) {
	rounds := need.LongOr(720, 60) // each takes 5 s
	for _, route := range []string{"QUIC", "relay that does not shift"} {
		t.Run(route, func(t *testing.T) {
			inStampWorld(t, route, func(w *stampWorld) {
				w.arrive(10 * time.Second)
				var named *wire.Clock
				changes := 0
				for range rounds {
					w.runs(5*time.Second, time.Second)
					if w.base == nil {
						continue
					}
					w.base.node.loop.call(func() {
						if now := w.base.node.mirrors.passedClock("robot.goal"); now != named {
							named = now
							changes++
						}
					})
				}
				w.wantSteps(0)
				if _, err := w.offset("state"); err > 50*time.Millisecond {
					t.Errorf("an error of %v, want 50ms at most", err)
				}
				if most := rounds * 5 / 6; changes > most {
					t.Errorf("the relay named %d offsets in %d s, want %d at most", changes, 5*rounds, most)
				}
			})
		})
	}
}

// The first exchange takes 80 ms longer in one direction, so that the first offset is wrong by 40 ms.
func TestStampsRecoverFromABadFirstSample(t *testing.T) {
	inStampWorld(t, "QUIC", func(w *stampWorld) {
		w.change("robot", "delay=81ms") // in one direction
		w.arrive(10 * time.Second)
		if _, err := w.offset("state"); err < 40*time.Millisecond {
			t.Errorf("an error of %v, want 40ms at least", err)
		}
		w.change("robot", "delay=1ms")
		w.runs(3*time.Minute, 100*time.Millisecond)
		if _, err := w.offset("state"); err > 5*time.Millisecond {
			t.Errorf("an error of %v after three minutes, want 5ms at most", err)
		}
		w.wantSteps(0)
	})
}

// A mirror that gets its frames from another host, or over another route, has the same offset.
func TestStampsDoNotJumpWithTheRoute(t *testing.T) {
	t.Run("from the relay to the origin", func(t *testing.T) {
		inStampWorld(t, "relay that does not shift", func(w *stampWorld) {
			w.arrive(10 * time.Second)
			w.runs(5*time.Second, 10*time.Millisecond)
			before, _ := w.offset("state")
			var direct Config
			for _, m := range w.pc.cfg.Mirrors {
				m.Host, m.Channel = "robot", m.As
				direct.Mirrors = append(direct.Mirrors, m)
			}
			if err := w.pc.node.Apply(direct); err != nil {
				t.Fatal(err)
			}
			w.pc.node.SetPeers(asPeers([]*host{w.robot}))
			w.arrive(10 * time.Second)
			after, _ := w.offset("state")
			if (after - before).Abs() > 5*time.Millisecond {
				t.Errorf("the offset moved by %v", after-before)
			}
			w.runs(time.Minute, 100*time.Millisecond)
			w.wantSteps(0)
			if _, err := w.offset("state"); err > 2*time.Millisecond {
				t.Errorf("an error of %v, want that of the direct link", err)
			}
		})
	})
	t.Run("from the direct link to the hub", func(t *testing.T) {
		inStampWorld(t, "hub", func(w *stampWorld) {
			w.arrive(10 * time.Second)
			w.pc.knows([]string{"robot"}, w.robot)
			w.within(2*time.Minute, "the direct link", func() bool {
				w.runs(100*time.Millisecond, 20*time.Millisecond)
				return w.pc.mirror("state").Way != status.WayHub
			})
			w.runs(time.Minute, 100*time.Millisecond)
			w.change("pc", "cut")
			w.within(time.Minute, "the hub", func() bool {
				w.runs(100*time.Millisecond, 20*time.Millisecond)
				return w.pc.mirror("state").Way == status.WayHub
			})
			w.arrive(10 * time.Second)
			w.wantSteps(0)
		})
	})
}

// relayConfig returns the configuration of the relay, with or without the option.
func (w *stampWorld) relayConfig(shifts bool) Config {
	cfg := Config{Relay: []string{"*"}}
	for name, qos := range stampClasses {
		if shifts && name != plain {
			qos.Stamps = "sns"
		}
		cfg.Mirrors = append(cfg.Mirrors, rule.Mirror{Host: "robot", Channel: name, QoS: qos})
	}
	return cfg
}
