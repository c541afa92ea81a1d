package bridge

import (
	"slices"
	"testing"
	"time"

	"achbridge/bridge/status"
)

// suspend has the clocks of a host say that it was suspended. It was not: in virtual time
// no clock stands still, so that what came meanwhile looks as new as it would then.
func (h *host) suspend(long time.Duration) { h.slept.Add(int64(long)) }

func TestNoCommandIsPutThatCameBeforeTheRobotWasSuspended(t *testing.T) {
	inCommand(t, func(c *commanding) {
		c.commands(200 * time.Millisecond)
		c.put()
		c.watch(5 * time.Millisecond) // it is on its way
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

// The daemon notices by the first command that comes, and asks for the peer's clock at
// once: with 20 ms of way to and fro the robot obeys again after little more than that.
func TestCommandsGoOnSoonAfterTheRobotWasSuspended(t *testing.T) {
	inCommand(t, func(c *commanding) {
		c.commands(200 * time.Millisecond)
		c.robot.suspend(time.Hour)
		suspended := c.number
		c.commands(300 * time.Millisecond)
		lost := 0
		for n := suspended + 1; n+2 <= c.number; n++ {
			if !slices.ContainsFunc(c.seen.frames, func(s sighting) bool { return s.number == n }) {
				lost++
			}
		}
		t.Logf("%d commands were not put", lost)
		if lost == 0 || lost > 6 {
			t.Errorf("%d commands were not put, want those of 20 to 60 ms", lost)
		}
	})
}

// A command is sent again when the path is back, within its budget: unless the operator's
// host was suspended meanwhile, which its clock does not tell.
func TestNoCommandIsSentThatWasPutBeforeTheOperatorsHostWasSuspended(t *testing.T) {
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
