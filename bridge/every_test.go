package bridge

import (
	"encoding/binary"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/testnet"
)

// follow collects all frames that a mirror receives, until stop.
func (h *host) follow(name string) (numbers func() []uint64) {
	h.w.t.Helper()
	h.w.within(2*time.Second, name, func() bool {
		ch, err := h.dir.Open(name)
		if err == nil {
			ch.Close()
		}
		return err == nil
	})
	ch, err := h.dir.Open(name)
	if err != nil {
		h.w.t.Fatal(err)
	}
	h.w.t.Cleanup(func() { ch.Close() })
	r, buf := ch.Reader(), make([]byte, ch.Geometry().FrameCount*ch.Geometry().FrameSize)
	var list []uint64
	return func() []uint64 {
		for {
			if _, err := r.NextOldest(buf, 0); err != nil {
				return list
			}
			list = append(list, binary.LittleEndian.Uint64(buf))
		}
	}
}

func every(h *host, channel string) Config {
	return Config{Mirrors: []rule.Mirror{{Host: h.name, Channel: channel, QoS: rule.QoS{Mode: rule.Every}}}}
}

// consecutive checks that list is first, first+1, … last.
func consecutive(t *testing.T, list []uint64, first, last uint64) {
	t.Helper()
	if uint64(len(list)) != last-first+1 {
		t.Errorf("got %d frames, want %d", len(list), last-first+1)
	}
	for i, n := range list {
		if n != first+uint64(i) {
			t.Fatalf("frame %d of the mirror: got number %d, want %d", i, n, first+uint64(i))
		}
	}
}

func TestModeEveryDeliversInOrderOverLossyLink(t *testing.T) {
	for _, c := range []struct {
		name         string
		size, frames int
		period       time.Duration
	}{
		{"small", 64, 3000, time.Millisecond},
		{"large", 20_000, 100, 20 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				lossy := wire10ms
				lossy.Loss = 0.03
				robot, pc := w.host("robot", lossy), w.host("pc", lossy)
				events := robot.channel("events", 256, c.size)
				robot.run(Config{})
				pc.run(every(robot, "events"), robot)
				numbers := pc.follow("robot.events")
				for i := range c.frames {
					events.put(uint64(i+1), c.size)
					time.Sleep(c.period)
					numbers()
				}
				w.within(10*time.Second, "the last frame", func() bool { n := numbers(); return len(n) > 0 && n[len(n)-1] == uint64(c.frames) })
				consecutive(t, numbers(), 1, uint64(c.frames))
				w.within(time.Second, "the ledger", func() bool {
					m := pc.mirror("robot.events").FrameCounters
					return m.Offered == uint64(c.frames) && m.Delivered == m.Offered && m.InFlight == 0
				})
			})
		})
	}
}

func TestModeEveryStartsWithRingAndResumesAfterOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		events := robot.channel("events", 128, 64)
		for i := range 300 {
			events.put(uint64(i+1), 64)
		}
		robot.run(Config{})
		pc.run(every(robot, "events"), robot)
		numbers := pc.follow("robot.events")
		pc.follows("robot.events", 300, 2*time.Second)
		consecutive(t, numbers(), 173, 300)
		if err := w.net.Change("", "cut"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		for i := range 100 {
			events.put(uint64(i+301), 64)
		}
		if err := w.net.Change("", "up"); err != nil {
			t.Fatal(err)
		}
		w.within(10*time.Second, "frame 400", func() bool { n, _ := pc.newest("robot.events"); return n == 400 })
		consecutive(t, numbers(), 173, 400)
	})
}

func TestModeEveryDoesNotDelayOtherChannels(t *testing.T) {
	inWorld(t, func(w *world) {
		slow, err := testnet.ParseParams("delay=10ms,rate=2mbit,queue=64KiB")
		if err != nil {
			t.Fatal(err)
		}
		robot, pc := w.host("robot", slow), w.host("pc", slow)
		events, imu := robot.channel("events", 64, 1000), robot.channel("imu", 16, 64)
		robot.run(Config{})
		cfg := every(robot, "events")
		cfg.Mirrors = append(cfg.Mirrors, rule.Mirror{Host: "robot", Channel: "imu", QoS: rule.QoS{Priority: priority7}})
		pc.run(cfg, robot)
		pc.follow("robot.events")
		pc.follow("robot.imu")
		old, looks := 0, 0
		for i := range 4000 {
			events.put(uint64(i+1), 1000)
			if i%10 == 0 {
				imu.put(uint64(i+1), 64)
			}
			time.Sleep(time.Millisecond)
			if i < 1000 {
				continue
			}
			looks++
			if _, age := pc.newest("robot.imu"); age > 45*time.Millisecond {
				old++
			}
		}
		// The limit allows 10 ms of delay, 10 ms of period, and the packets sent before: one in the
		// queue, one in transit, and those of the transport. A probe of the link may take longer.
		if old > looks/10 {
			t.Errorf("imu beside a stream that fills the link: %d of %d times older than 45 ms, want at most one in 10", old, looks)
		}
	})
}

func TestModeChangesWhileAMirrorRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		events := robot.channel("events", 64, 64)
		robot.run(Config{})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "events"}}}, robot)
		events.put(1, 64)
		pc.follows("robot.events", 1, 2*time.Second)
		numbers := pc.follow("robot.events")
		for i, mode := range []rule.Mode{rule.Every, rule.Newest, rule.Every} {
			if err := pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "events", QoS: rule.QoS{Mode: mode}}); err != nil {
				t.Fatal(err)
			}
			number := uint64(i + 2)
			events.put(number, 64)
			pc.follows("robot.events", number, 2*time.Second)
		}
		consecutive(t, numbers(), 1, 4)
	})
}

// Loss shrinks the transport's window to a few packets. Then a burst of frames fills the window
// while all acknowledgements are lost. The stream continues as soon as the transport learns that
// its packets arrived.
func TestModeEveryResumesSoonAfterLostAcks(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		events := robot.channel("events", 4096, 64)
		robot.run(Config{})
		pc.run(every(robot, "events"), robot)
		numbers := pc.follow("robot.events")
		put, came, stood, longest := uint64(0), 0, 0, 0
		burst := func(frames int) {
			for range frames {
				put++
				events.put(put, 64)
			}
		}
		for i := range 8000 {
			switch i % 500 {
			case 0:
				w.change("robot", "loss=15%")
			case 300:
				w.change("robot", "loss=0")
				w.change("pc", "cut")
				burst(600)
			case 345:
				w.change("pc", "up")
			}
			burst(1)
			time.Sleep(time.Millisecond)
			stood++
			if list := numbers(); len(list) > came {
				came, stood = len(list), 0
			}
			if i%500 > 300 {
				longest = max(longest, stood)
			}
		}
		if longest > 350 {
			t.Errorf("after 45 ms without reports the stream stood still for %d ms, want at most 350", longest)
		}
	})
}
