package bridge

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/status"
	"achbridge/bridge/unit"
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

// lookAtClocks logs steps of this host's wall clock, and steps of peers' clocks against ours.
func (n *Node) lookAtClocks() {
	both := func() (wall, mono time.Duration) {
		now := wallTime()
		return time.Duration(now.UnixNano()), now.Sub(n.start)
	}
	n.lookAtSleep()
	step := n.wall.look(both)
	n.publishers.WallClockMoved(step)
	slept := n.slept
	n.slept = 0
	if (step-slept).Abs() >= leastStep && step != 0 {
		n.events.Tell(slog.LevelWarn, "wall clock stepped", status.Event{
			Kind: status.EventClockStep, Text: fmt.Sprintf("wall clock of this host moved by %s: it was set; ages do not depend on it", unit.Time((step - slept).Round(time.Millisecond))),
		}, "step", step-slept)
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
	total := n.clock.Suspended()
	slept := total - n.asleep
	if !clock.Slept(n.asleep, total) {
		return
	}
	n.asleep = total
	n.slept += slept
	n.events.Tell(slog.LevelWarn, "host was suspended", status.Event{
		Kind: status.EventClockStep, Text: fmt.Sprintf("this host was suspended for %s: commands of before are not put, and ages do not count that time", unit.Time(slept.Round(time.Millisecond))),
	}, "step", slept)
	for _, l := range slices.Concat(slices.Collect(maps.Values(n.links)), slices.Collect(maps.Values(n.spares))) {
		l.frames.Suspended(n.now(), total)
	}
}
