package bridge

import (
	"slices"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet"
)

// suspend makes the clocks of a host report a suspend. In virtual time no clock actually stops, so
// frames that arrived meanwhile look new, as they would after a real suspend.
func (h *host) suspend(long time.Duration) { h.slept.Add(int64(long)) }

func TestCommandInFlightBeforeSuspendIsNotPut(t *testing.T) {
	inCommand(t, func(c *commanding) {
		c.commands(200 * time.Millisecond)
		c.put()
		c.watch(5 * time.Millisecond) // the command is in transit
		c.robot.suspend(time.Hour)
		before := c.number
		c.watch(100 * time.Millisecond)
		if n, _ := c.robot.newest("goal"); n >= before {
			t.Errorf("command %d was put, though it may be an hour old", n)
		}
		if late := c.robot.mirror("goal").Late; late != 1 {
			t.Errorf("%d commands were late, want 1", late)
		}
		if list := c.robot.events(status.EventClockStep); len(list) != 1 {
			t.Errorf("got events %v, want one that tells of it", list)
		}
		c.commands(50 * time.Millisecond)
		c.robot.follows("goal", c.number, 20*time.Millisecond)
	})
}

// When the first command arrives, the daemon detects the suspend and requests the peer's clock at
// once. With a round trip of 20 ms, the robot puts commands again soon after.
func TestCommandsResumeSoonAfterSuspend(t *testing.T) {
	inCommand(t, func(c *commanding) {
		c.commands(200 * time.Millisecond)
		c.robot.suspend(time.Hour)
		suspended := c.number
		c.commands(300 * time.Millisecond)
		lost := 0
		for n := suspended + 1; n+2 <= c.number; n++ {
			if !slices.ContainsFunc(c.reader.frames, func(s ageSample) bool { return s.number == n }) {
				lost++
			}
		}
		t.Logf("%d commands were not put", lost)
		if lost == 0 || lost > 6 {
			t.Errorf("%d commands were not put, want those of 20 to 60 ms", lost)
		}
	})
}

// A command is retransmitted within its budget when the path returns, unless the operator's host
// was suspended meanwhile. Its monotonic clock does not show the suspend.
func TestCommandPutBeforeSuspendIsNotSent(t *testing.T) {
	for name, long := range map[string]time.Duration{"awake": 0, "suspended": time.Hour} {
		t.Run(name, func(t *testing.T) {
			rules := goalRules()
			rules[0].QoS.Budget, rules[0].QoS.Deadline = 3*time.Second, 10*time.Second
			inCommandBy(t, rules, func(c *commanding) {
				c.commands(200 * time.Millisecond)
				c.watch(100 * time.Millisecond)
				c.change("pc", "cut")
				c.put()
				c.watch(500 * time.Millisecond)
				c.pc.suspend(long)
				c.change("pc", "up")
				c.watch(time.Second)
				if n, _ := c.robot.newest("goal"); (n == c.number) != (long == 0) {
					t.Errorf("the robot has command %d of %d; the last one waited while its host was suspended for %v", n, c.number, long)
				}
				c.commands(100 * time.Millisecond)
				c.robot.follows("goal", c.number, 20*time.Millisecond)
			})
		})
	}
}

// A command that waits for the hub is published when the previous one has been sent, unless the
// operator's host was suspended meanwhile.
func TestCommandPutBeforeSuspendIsNotPublished(t *testing.T) {
	for name, long := range map[string]time.Duration{"awake": 0, "suspended": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				hub := newWorldHub(w, hubMaxFrame)
				robot, pc := w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{})
				pc.atHub(hub, Config{})
				command := rule.QoS{Class: rule.Command, Budget: time.Second}
				robot.atHub(hub, Config{Mirrors: []rule.Mirror{{Host: "pc", Channel: "goal", QoS: command}}}, "pc")
				goal := pc.channel("goal", 16, 64)
				w.within(4*time.Second, "the mirror", func() bool { return robot.mirror("pc.goal").State == status.MirrorLive })
				time.Sleep(time.Second)
				goal.put(1, 64)
				robot.follows("pc.goal", 1, 200*time.Millisecond)
				time.Sleep(time.Second)

				puts := hub.puts("pc")
				hub.tap("pc", func(t *hubTap) { t.delay = func() { time.Sleep(100 * time.Millisecond) } })
				goal.put(2, 64)
				time.Sleep(50 * time.Millisecond)
				goal.put(3, 64)
				time.Sleep(10 * time.Millisecond)
				pc.suspend(long)
				time.Sleep(500 * time.Millisecond)
				want := puts + 2
				if long > 0 {
					want = puts + 1
				}
				if got := hub.puts("pc"); got != want {
					t.Errorf("%d commands were put at the hub, want %d", got-puts, want-puts)
				}
				if n, _ := robot.newest("pc.goal"); (n == 3) != (long == 0) {
					t.Errorf("the robot has command %d; command 3 waited while its host was suspended for %v", n, long)
				}
				goal.put(4, 64)
				robot.follows("pc.goal", 4, time.Second)
			})
		})
	}
}
