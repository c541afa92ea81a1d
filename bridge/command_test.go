package bridge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet/need"
	"achbridge/wire"
)

const (
	goalDeadline = 200 * time.Millisecond
	stopNumber   = 1 << 40 // number in the safe frame
	goalPeriod   = 10 * time.Millisecond
)

// commanding is a robot that accepts commands, and a PC that sends them.
type commanding struct {
	*world
	robot, pc *host
	rules     rule.Grants // rules of the robot
	source    *putSource
	goal      *channel // channel of the PC
	number    uint64
	reader    *ageReader
	began     time.Time
}

// goalRules let any host command a robot.
func goalRules() rule.Grants {
	return rule.Grants{{Channels: []string{"goal"}, QoS: rule.QoS{
		Class: rule.Command, Budget: 50 * time.Millisecond, Compress: rule.CompressNone, Deadline: goalDeadline,
		OnStale: rule.OnStale{File: "stop", Frame: string(frame(stopNumber, 64))},
	}}}
}

// inCommand runs run in a world with a PC that commands a robot.
func inCommand(t *testing.T, run func(c *commanding)) {
	t.Helper()
	inCommandBy(t, goalRules(), run)
}

// inCommandBy is like inCommand, with the given rules of the robot.
func inCommandBy(t *testing.T, rules rule.Grants, run func(c *commanding)) {
	t.Helper()
	inWorld(t, func(w *world) {
		c := &commanding{world: w, robot: w.host("robot", wire10ms), pc: w.host("pc", wire10ms), rules: rules}
		c.robot.runAt(port, &putSource{dir: c.robot.dir}, Config{Accept: c.rules})
		c.source = &putSource{dir: c.pc.dir}
		c.goal = c.pc.channel("goal", 16, 64)
		c.pc.runAt(port, c.source, Config{Pushes: []rule.Push{{Channel: "goal", Host: "robot"}}})
		c.pc.node.SetPeers(asPeers([]*host{c.robot}))
		w.within(5*time.Second, "the push", func() bool { return c.robot.mirror("goal").State == status.MirrorLive })
		time.Sleep(100 * time.Millisecond) // for the clock synchronization
		c.began = time.Now()
		c.reader = openAgeReader(t, c.robot.dir, "goal")
		defer c.reader.ch.Close()
		run(c)
	})
}

// put puts one command.
func (c *commanding) put() {
	c.number++
	c.goal.put(c.number, 64)
	c.source.noticed(c.goal.ch)
}

// commands puts commands for a while.
func (c *commanding) commands(long time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); {
		c.put()
		c.watch(goalPeriod)
	}
}

// watch looks at the robot's channel every half millisecond for a while.
func (c *commanding) watch(long time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); {
		time.Sleep(time.Millisecond / 2)
		c.reader.sample(c.began, time.Since(c.began))
	}
}

// stops returns the delay of each safe frame after the command before it.
func (c *commanding) stops() (after []time.Duration) {
	for i, s := range c.reader.frames {
		if s.number == stopNumber && i > 0 {
			after = append(after, s.at-c.reader.frames[i-1].at)
		}
	}
	return after
}

// stoppedOnce fails unless exactly one safe frame was put, and in time.
func (c *commanding) stoppedOnce() {
	c.t.Helper()
	after := c.stops()
	if len(after) != 1 {
		c.t.Errorf("got %d safe frames, want one", len(after))
		return
	}
	c.t.Logf("safe frame %v after the last command", after[0])
	if after[0] < goalDeadline-time.Millisecond || after[0] > goalDeadline+10*time.Millisecond {
		c.t.Errorf("got the safe frame %v after the last command, want it within 10 ms after %v", after[0], goalDeadline)
	}
}

func TestSafeFrameIsPutOnceAtDeadline(t *testing.T) {
	for how, lose := range map[string]func(c *commanding){
		"the program stops":    func(*commanding) {},
		"the path is cut":      func(c *commanding) { c.change("pc", "cut") },
		"the daemon is killed": func(c *commanding) { c.pc.vanish() },
		"the daemon leaves":    func(c *commanding) { c.pc.stop() },
		"a rule denies the channel": func(c *commanding) {
			if err := c.robot.node.Apply(Config{}); err != nil {
				c.t.Error(err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			inCommand(t, func(c *commanding) {
				c.commands(time.Second)
				if n := len(c.stops()); n != 0 {
					t.Fatalf("got %d safe frames while commands arrived, want none", n)
				}
				go lose(c)
				c.watch(15 * time.Second) // longer than the idle timeout of a link
				c.stoppedOnce()
				if c.robot.said("mirror stale") != 1 {
					t.Errorf("log: got %d lines of a stale mirror, want one", c.robot.said("mirror stale"))
				}
			})
		})
	}
}

func TestSafeFrameIsRepeatedOnlyAfterNewCommand(t *testing.T) {
	inCommand(t, func(c *commanding) {
		c.watch(time.Second)
		if n := len(c.reader.frames); n != 0 {
			t.Fatalf("%d frames before the first command, want none", n)
		}
		for range 3 {
			c.commands(300 * time.Millisecond)
			c.watch(3 * time.Second)
		}
		after := c.stops()
		if len(after) != 3 || slices.Max(after) > goalDeadline+10*time.Millisecond {
			t.Errorf("got safe frames %v after the last commands, want three after %v", after, goalDeadline)
		}
		m := c.robot.mirror("goal")
		if m.State != status.MirrorStale || m.Safe != 3 || m.StaleS < 2 || m.StaleS > 3 || !strings.Contains(m.Reason, "the safe frame was put") {
			t.Errorf("got %s for %v s (%s), %d safe frames; want it stale for 2.8 s, 3 safe frames", m.State, m.StaleS, m.Reason, m.Safe)
		}
	})
}

func TestDaemonPutsSafeFrameBeforeItStops(t *testing.T) {
	inCommand(t, func(c *commanding) {
		c.commands(200 * time.Millisecond)
		c.robot.stop()
		c.watch(time.Second)
		if n := len(c.stops()); n != 1 {
			t.Errorf("got %d safe frames, want one", n)
		}
		c.robot.runAt(port, &putSource{dir: c.robot.dir}, Config{Accept: c.rules})
		c.watch(10 * time.Second)
		if n := len(c.stops()); n != 1 || c.robot.mirror("goal").State != status.MirrorStale {
			t.Errorf("got %d safe frames after the restart, want one; mirror %+v", n, c.robot.mirror("goal"))
		}
	})
}

func TestFlappingMirrorEventsAreLimitedAndCounted(t *testing.T) {
	inCommand(t, func(c *commanding) {
		for range 200 {
			c.put()
			c.watch(goalDeadline + goalDeadline/4)
		}
		for range 20 {
			c.put()
			c.watch(goalDeadline / 2)
		}
		if n := len(c.stops()); n != 200 {
			t.Errorf("got %d safe frames, want 200", n)
		}
		stale, missed, fresh := c.robot.events(status.EventMirrorStale), c.robot.events(status.EventDeadlineMissed), c.robot.events(status.EventMirrorFresh)
		if len(stale) != 1 || len(fresh) != 1 || len(missed) != 1 {
			t.Fatalf("got %d stale, %d missed, %d fresh in 52 s, want one of each", len(stale), len(missed), len(fresh))
		}
		e := missed[0]
		if e.Count != 199 || !strings.Contains(e.Text, "199 more times") || c.robot.node.Status().Events[status.EventDeadlineMissed] != 199 {
			t.Errorf("got %+v, %d in status, want 199 misses after the first", e, c.robot.node.Status().Events[status.EventDeadlineMissed])
		}
		if e.End == nil || !e.End.After(e.Time) || !e.End.Before(fresh[0].Time) || !strings.HasSuffix(fresh[0].Text, ", after 200 missed deadlines") {
			t.Errorf("got end %v of event %+v, then event %+v, want the time of the last miss, and the number of misses", e.End, e, fresh[0])
		}
	})
}

func TestRepeatedStaleEventsAreRateLimited(t *testing.T) {
	inCommand(t, func(c *commanding) {
		for range need.LongOr(60, 20) {
			c.commands(2 * time.Second)
			c.watch(time.Second)
		}
		if n := len(c.robot.events(status.EventMirrorStale)) + len(c.robot.events(status.EventMirrorFresh)); n > 5 {
			t.Errorf("got %d events of stale and fresh, want at most 5", n)
		}
	})
}

func TestNoCommandIsReplayedAfterAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second, 15 * time.Second} {
		t.Run(outage.String(), func(t *testing.T) {
			inCommand(t, func(c *commanding) {
				c.commands(200 * time.Millisecond)
				c.change("pc", "cut")
				c.commands(50 * time.Millisecond) // these are lost, and the last is the newest of the ring
				c.watch(outage)
				c.change("pc", "up")
				c.watch(10 * time.Second)
				for _, s := range c.reader.frames {
					if age := s.at - s.stamp; s.number != stopNumber && age > 50*time.Millisecond+time.Millisecond/2 {
						t.Errorf("command %d was put %v old, want within its budget", s.number, age)
					}
				}
				c.stoppedOnce()
				if m := c.robot.mirror("goal"); m.Late != 0 {
					t.Errorf("%d old commands travelled", m.Late)
				}
				before := len(c.reader.frames)
				c.commands(500 * time.Millisecond)
				if got := len(c.reader.frames) - before; got < 40 {
					t.Errorf("got %d of 50 commands after the outage, want all", got)
				}
			})
		})
	}
}

// second adds another PC that wants to command the robot.
func (c *commanding) second() *host {
	c.t.Helper()
	other := c.host("rival", wire10ms)
	other.runAt(port, &putSource{dir: other.dir}, Config{Pushes: []rule.Push{{Channel: "goal", Host: "robot"}}})
	other.channel("goal", 16, 64).put(1<<20, 64)
	other.node.SetPeers(asPeers([]*host{c.robot}))
	return other
}

// pushState returns the status of the only push of h.
func (h *host) pushState() status.Push {
	if list := h.node.Status().Pushes; len(list) == 1 {
		return list[0]
	}
	return status.Push{}
}

// asksAgain makes the host offer its push again, as a user would.
func (h *host) asksAgain() error {
	return h.node.Push(h.w.t.Context(), rule.Push{Channel: "goal", Host: "robot"})
}

func TestSecondWriterIsRefusedWhileFirstIsLinked(t *testing.T) {
	inCommand(t, func(c *commanding) {
		c.commands(200 * time.Millisecond)
		second := c.second()
		c.within(5*time.Second, "the refusal", func() bool { return second.pushState().State == status.PushRefused })
		if reason := second.pushState().Reason; !strings.Contains(reason, "goal is written by pc already") {
			t.Errorf("got %q, want the name of the writer", reason)
		}
		c.pc.stop()
		c.robot.node.loop.call(func() {
			offer := rule.Mirror{Host: "rival", Channel: "goal", As: "goal"}
			if _, text := c.robot.node.pushConflict(c.robot.node.linkNamed("rival"), offer); !strings.Contains(text, "pc") {
				t.Errorf("got %q before the safe frame was put, want a refusal", text)
			}
		})
		c.watch(goalDeadline + tick + 100*time.Millisecond)
		if n := len(c.stops()); n != 1 {
			t.Errorf("%d safe frames, want one", n)
		}
		c.watch(10 * time.Second)
		if got := second.pushState().State; got == status.PushAccepted {
			t.Error("the second writer replaced the first without a request, want it refused")
		}
		if err := second.asksAgain(); err != nil {
			t.Errorf("after the first writer is gone: %v", err)
		}
		c.within(time.Second, "the mirror", func() bool { return c.robot.mirror("goal").State == status.MirrorStale })
		w := c.robot.mirror("goal")
		if w.Host != "rival" {
			t.Errorf("got %q as the writer, want rival", w.Host)
		}
	})
}

// Both offers arrive before either channel is bound.
func TestOneOfTwoConcurrentWritersIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		robot.runAt(port, &putSource{dir: robot.dir}, Config{Accept: goalRules()})
		for _, name := range []string{"left", "right"} {
			pc := w.host(name, wire10ms)
			pc.runAt(port, &putSource{dir: pc.dir}, Config{})
			pc.node.SetPeers(asPeers([]*host{robot}))
		}
		w.within(5*time.Second, "links", func() bool { return len(robot.node.Status().Links) == 2 })
		robot.node.loop.call(func() { // the catalogs do not have goal, so no mirror can be bound
			for i, l := range []*link{robot.node.linkNamed("left"), robot.node.linkNamed("right")} {
				robot.node.offer(l, wire.Offer{ID: uint32(i + 1), Channel: "goal", As: "goal"})
			}
			if list := robot.node.pushed(); len(list) != 1 || list[0].Host != "left" {
				t.Errorf("got pushes %+v, want that of left alone", list)
			}
		})
	})
}

// linkNamed returns the link to a host.
func (n *Node) linkNamed(host string) *link {
	for _, l := range n.links {
		if l.host == host {
			return l
		}
	}
	return nil
}

func TestWriterOfSilentHostIsReplacedAfterDeadline(t *testing.T) {
	inCommand(t, func(c *commanding) {
		c.commands(200 * time.Millisecond)
		second := c.second()
		c.within(5*time.Second, "the refusal", func() bool { return second.pushState().State == status.PushRefused })
		c.commands(100 * time.Millisecond)
		c.watch(3 * time.Second) // the writer's program pauses, but its host is linked
		if second.asksAgain() == nil {
			t.Error("the channel was given to another writer, want it kept while the first writer's host is linked")
		}
		c.change("pc", "cut")
		c.watch(2 * time.Second)
		if err := second.asksAgain(); err != nil {
			t.Errorf("after the writer's host was silent for 2 s: %v", err)
		}
		c.change("pc", "up")
		c.commands(3 * time.Second)
		for _, s := range c.reader.frames[len(c.reader.frames)-3:] {
			if s.number < 1<<20 && s.at > time.Since(c.began)-2*time.Second {
				t.Errorf("command %d of the former writer was put", s.number)
			}
		}
		if p := c.pc.pushState(); p.State != status.PushRefused || !strings.Contains(p.Reason, "written by rival") {
			t.Errorf("the former writer has %s (%s), want it refused for rival", p.State, p.Reason)
		}
	})
}

// On the slow link the newest command has expired. In a state channel that frame must still be
// delivered.
func TestLastValueIsDeliveredAfterClassBecomesState(t *testing.T) {
	inFlow(t, "delay=10ms,rate=100kbit,queue=64KiB", rule.QoS{Class: rule.Command, Budget: 10 * milli}, 1000, func(f *flow) {
		f.stream(3*milli, second, func(time.Duration) {})
		time.Sleep(second)
		if a := f.pcSays(); a.Expired == 0 {
			t.Fatalf("no command has expired: %+v", a)
		}
		f.requalify(rule.QoS{})
		f.holds(f.number, 2*second)
		time.Sleep(2 * second)
		f.agrees()
	})
}
