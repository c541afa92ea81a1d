package bridge

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/status"
	"achbridge/bridge/unit"
	"achbridge/localach"
)

// leastStep is the least change of the wall clock against the monotonic clock that counts as
// a step. The wall clock was then set, or the host was suspended, which stops the monotonic
// clock.
const leastStep = 100 * time.Millisecond

// wallClock notices that the wall clock was set, or the host suspended.
type wallClock struct {
	wall, mono time.Duration // at the last look
	looked     bool
}

// look returns how far the wall clock has moved against the monotonic clock since the last
// look, 0 if it has not. read reads the two clocks one after the other. On a busy host time
// may pass between them, which looks like a step; a second reading then shows that it was
// none.
func (w *wallClock) look(read func() (wall, mono time.Duration)) time.Duration {
	step := w.moved(read())
	if step != 0 {
		step += w.moved(read())
	}
	if step.Abs() < leastStep {
		return 0
	}
	return step
}

func (w *wallClock) moved(wall, mono time.Duration) time.Duration {
	step := (wall - w.wall) - (mono - w.mono)
	known := w.looked
	w.wall, w.mono, w.looked = wall, mono, true
	if !known || step.Abs() < leastStep {
		return 0
	}
	return step
}

// clocks are the clocks of a node. start, mirror and ring do not change; the rest belongs to the node's goroutine.
type clocks struct {
	start  time.Time
	mirror mirror.Clock
	ring   ring.Clock

	wall      wallClock
	suspended time.Duration // for how long the host had been suspended in all, at the last look
	sleptFor  time.Duration // since the last look at the wall clock
}

// newClocks returns clocks that begin now. woke is called, on any goroutine, when a mirror finds that the host was suspended.
func newClocks(cfg *Config, woke func()) clocks {
	c := clocks{start: wallTime()}
	now := func() time.Duration { return time.Since(c.start) }
	c.ring = ring.Clock{Now: now, Looked: func() time.Duration { return cfg.Source.Looked().Sub(c.start) }}
	c.mirror = mirror.Clock{Now: now, At: status.Monotonic(c.start), Suspended: cfg.testing.suspended, Woke: woke}
	if c.mirror.Suspended == nil {
		c.mirror.Suspended = localach.Suspended
	}
	c.suspended = c.mirror.Suspended()
	return c
}

// step returns how far the wall clock has moved against the monotonic clock since the last look, and how much of that is because
// it was set.
func (c *clocks) step() (moved, set time.Duration) {
	moved = c.wall.look(func() (wall, mono time.Duration) {
		now := wallTime()
		return time.Duration(now.UnixNano()), now.Sub(c.start)
	})
	set = moved - c.sleptFor
	c.sleptFor = 0
	return moved, set
}

// sleep returns for how long the host was suspended since the last look, 0 if it was not, and for how long in all.
func (c *clocks) sleep() (slept, total time.Duration) {
	total = c.mirror.Suspended()
	if !clock.Slept(c.suspended, total) {
		return 0, total
	}
	slept = total - c.suspended
	c.suspended = total
	c.sleptFor += slept
	return slept, total
}

// lookAtClocks logs steps of this host's wall clock, and steps of peers' clocks against ours.
func (n *Node) lookAtClocks() {
	n.lookAtSleep()
	moved, set := n.clocks.step()
	n.shared.publishers.WallClockMoved(moved)
	if set.Abs() >= leastStep && moved != 0 {
		n.events.Tell(slog.LevelWarn, "wall clock stepped", status.Event{
			Kind: status.EventClockStep, Text: fmt.Sprintf("wall clock of this host moved by %s: it was set; ages do not depend on it", unit.Time(set.Round(time.Millisecond))),
		}, "step", set)
	}
	for _, l := range n.links {
		if step := l.frames.TakeStep(); step != 0 {
			l.warn("clock of a peer stepped", status.Event{
				Kind: status.EventClockStep, Text: fmt.Sprintf("monotonic clock of %s moved by %s against ours: one of the two hosts was suspended", l.host, unit.Time(step.Round(time.Microsecond))),
			}, "step", step)
		}
	}
}

// lookAtSleep makes sure, after the host was suspended, that no frame from before counts as
// new. The offsets of the peers' clocks are measured again, and commands from before that
// have not left yet are not sent.
func (n *Node) lookAtSleep() {
	slept, total := n.clocks.sleep()
	if slept == 0 {
		return
	}
	n.events.Tell(slog.LevelWarn, "host was suspended", status.Event{
		Kind: status.EventClockStep, Text: fmt.Sprintf("this host was suspended for %s: commands of before are not put, and ages do not count that time", unit.Time(slept.Round(time.Millisecond))),
	}, "step", slept)
	for _, l := range slices.Concat(slices.Collect(maps.Values(n.links)), slices.Collect(maps.Values(n.spares))) {
		l.frames.Suspended(n.now(), total)
	}
}
