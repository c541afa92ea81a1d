package bridge

import (
	"fmt"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach/damage"
)

// No newer frame follows the late frame, so the mirror requests the late one.
func TestLateNewestFrameIsPutOnce(t *testing.T) {
	for _, size := range []int{64, 5000} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			inFlow(t, "delay=10ms,rate=100mbit", rule.QoS{Budget: 40 * milli, Late: rule.LateDrop}, size, func(f *flow) {
				f.put()
				f.holds(1, 50*milli)
				f.change("delay=100ms")
				f.put()
				time.Sleep(120 * milli)
				if a := f.pcSays(); f.kept() != 1 || a.Late != 1 {
					t.Fatalf("%d frames were put and %d were late, want one each", f.kept(), a.Late)
				}
				f.holds(2, tick+250*milli)
				time.Sleep(5 * second)
				f.agrees()
				if a := f.pcSays(); a.LateKept != 1 || a.Late != 0 {
					t.Errorf("got %+v, want the frame kept late, once", a)
				}
			})
		})
	}
}

func TestLastValueIsDeliveredToNewSubscription(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		imu := robot.channel("data", 16, 64)
		imu.put(1, 64)
		imu.put(2, 64)
		time.Sleep(time.Minute)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", QoS: rule.QoS{Budget: milli}}}}, robot)
		pc.follows(flowName, 2, 200*milli)
		time.Sleep(2 * second)
		if a := pc.mirror(flowName).FrameCounters; a != (ledger.FrameCounters{Offered: 1, LateKept: 1}) {
			t.Errorf("got %+v, want one frame kept late", a)
		}
	})
}

// One frame occupies the link for 170 ms; its budget is 100 ms.
func TestLargeFramePastItsBudget(t *testing.T) {
	const link, size = "delay=10ms,rate=1mbit,queue=64KiB", 20_000
	t.Run("continues without a newer frame", func(t *testing.T) {
		inFlow(t, link, rule.QoS{}, size, func(f *flow) {
			f.put()
			f.holds(1, 300*milli)
			time.Sleep(2 * second)
			if a := f.pcSays(); a != (ledger.FrameCounters{Offered: 1, LateKept: 1}) {
				t.Errorf("got %+v, want one frame kept late", a)
			}
		})
	})
	// If a newer frame replaced every frame past its budget, a mirror whose frames take longer
	// than the budget would never get one.
	t.Run("is completed once it has begun", func(t *testing.T) {
		inFlow(t, link, rule.QoS{}, size, func(f *flow) {
			f.put()
			time.Sleep(50 * milli)
			f.put()
			f.holds(1, 300*milli)
			f.holds(2, 300*milli)
			time.Sleep(2 * second)
			if a := f.pcSays(); a != (ledger.FrameCounters{Offered: 2, LateKept: 2}) || f.kept() != 2 {
				t.Errorf("got %+v and %d frames put, want both kept late", a, f.kept())
			}
		})
	})
	t.Run("is abandoned for a newer frame with late drop", func(t *testing.T) {
		inFlow(t, link, rule.QoS{Late: rule.LateDrop}, size, func(f *flow) {
			f.put()
			time.Sleep(50 * milli)
			f.put()
			f.holds(2, 350*milli) // 60 ms more than without the first frame, of which a part was already sent
			time.Sleep(2 * second)
			if a := f.pcSays(); a != (ledger.FrameCounters{Offered: 2, Expired: 1, LateKept: 1}) || f.kept() != 1 {
				t.Errorf("got %+v and %d frames put, want the first expired and the second kept late", a, f.kept())
			}
		})
	})
	t.Run("is abandoned for a newer frame smaller than the rest", func(t *testing.T) {
		inFlow(t, link, rule.QoS{}, 5*size, func(f *flow) {
			f.put()
			time.Sleep(50 * milli)
			f.size = 3000
			f.put()
			f.holds(2, 300*milli)
			time.Sleep(2 * second)
			if a := f.pcSays(); a.Expired != 1 || f.kept() != 1 {
				t.Errorf("got %+v and %d frames put, want the first expired", a, f.kept())
			}
		})
	})
	t.Run("is abandoned when the path is cut", func(t *testing.T) {
		inFlow(t, link, rule.QoS{}, size, func(f *flow) {
			f.put()
			time.Sleep(50 * milli)
			f.change("cut")
			f.put()
			time.Sleep(2 * second)
			f.change("up")
			f.holds(2, second)
			time.Sleep(2 * second)
			if a := f.pcSays(); a.Expired != 1 || f.kept() != 1 {
				t.Errorf("got %+v and %d frames put, want the first expired", a, f.kept())
			}
		})
	})
	t.Run("is completed within its budget", func(t *testing.T) {
		inFlow(t, link, rule.QoS{Budget: second}, size, func(f *flow) {
			f.put()
			time.Sleep(50 * milli)
			f.put()
			f.holds(1, 300*milli)
			f.holds(2, 300*milli)
		})
	})
}

func TestCommandIsNeverPutLate(t *testing.T) {
	command := rule.QoS{Budget: 80 * milli, Class: rule.Command}
	t.Run("on a path with a long delay", func(t *testing.T) {
		inFlow(t, "delay=10ms,rate=100mbit", command, 64, func(f *flow) {
			f.stream(10*milli, second, func(time.Duration) {})
			time.Sleep(100 * milli)
			if f.kept() != 100 {
				t.Errorf("%d commands were put in time, want 100", f.kept())
			}
			f.change("delay=100ms")
			f.stream(100*milli, second, func(time.Duration) {})
			time.Sleep(10 * second)
			if a := f.pcSays(); f.kept() != 100 || a.LateKept != 0 || a.Late != 10 {
				t.Errorf("%d commands were put, and %+v; want 100 put and 10 late", f.kept(), a)
			}
		})
	})
	t.Run("put before the subscription", func(t *testing.T) {
		inWorld(t, func(w *world) {
			robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
			robot.run(Config{})
			robot.channel("data", 16, 64).put(1, 64)
			pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", QoS: rule.QoS{Budget: time.Hour, Class: rule.Command}}}}, robot)
			w.within(2*second, "mirror", func() bool { return pc.mirror(flowName).State == status.MirrorLive })
			time.Sleep(10 * second)
			a := robot.node.Status().Exports[0].FrameCounters
			if n, _ := pc.newest(flowName); n != 0 || a.Delivered+a.LateKept != 0 || a.Settled() != a.Offered {
				t.Errorf("got command %d in the mirror and counters %+v at the origin, want no command, counted once", n, a)
			}
		})
	})
}

// A local reader holds the mirror's lock until the budget is over.
func TestFrameBecomesLateWhileLockIsHeld(t *testing.T) {
	for class, want := range map[rule.Class]ledger.FrameCounters{rule.State: {LateKept: 1}, rule.Command: {Late: 1}} {
		t.Run(class.String(), func(t *testing.T) {
			inFlow(t, "delay=10ms,rate=100mbit", rule.QoS{Class: class}, 64, func(f *flow) {
				time.Sleep(500 * milli)
				damage.TakeLock(t, f.pc.dir, flowName)
				f.put()
				time.Sleep(200 * milli)
				damage.FreeLock(t, f.pc.dir, flowName)
				time.Sleep(2 * second)
				want.Offered = 1
				if a := f.pcSays(); a != want || f.kept() != want.LateKept {
					t.Errorf("%v: got %+v and %d frames put, want %+v", class, a, f.kept(), want)
				}
			})
		})
	}
}

// The first command needs the peer's clock, which must be known before the link has carried frames.
func TestFirstCommandIsPut(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Minute} {
		for _, link := range []string{"delay=10ms", "delay=10ms,loss=30%"} {
			t.Run(fmt.Sprintf("after %v on %s", wait, link), func(t *testing.T) {
				inFlow(t, link, rule.QoS{Class: rule.Command, Budget: 5 * second}, 64, func(f *flow) {
					time.Sleep(500*milli + wait)
					f.put()
					f.holds(1, 4*second)
				})
			})
		}
	}
}

func TestLargestBudgetIsValid(t *testing.T) {
	inFlow(t, "delay=10ms,rate=100mbit", rule.QoS{Budget: 1<<63 - 1, Class: rule.Command}, 64, func(f *flow) {
		time.Sleep(500 * milli)
		f.put()
		f.holds(1, 50*milli)
	})
}

// A frame occupies the link for 2.1 s, and its budget is 1 s.
func TestFramesSlowerThanTheirBudgetArrive(t *testing.T) {
	s := scenario{
		over: "quic", link: "delay=10ms,rate=2mbit,queue=128KiB", length: 10 * second,
		loads: []load{{channel: "camera", size: 500_000, period: 100 * milli, qos: image}},
	}
	readers, b := s.run(t, 1)
	w := window{"", warmUp + 4*second, warmUp + s.length}
	age, least := ageStat(cut(readers[0].ages, w, s.step())).mean, ageStat(cut(b.oracle(0), w, s.step())).mean
	if age > 1.3*least {
		t.Errorf("the mirror was %.0f ms old on average, want at most 1.3 times %.0f", age, least)
	}
}
