package bridge

import (
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/status"
)

// leastStep is what the wall clock must have gained or lost between two looks to
// have been set. The monotonic clock stands still while the host is suspended.
const leastStep = 100 * time.Millisecond

// wallClock notices that the wall clock was set, or the host suspended.
type wallClock struct {
	wall, mono time.Duration // at the last look
	looked     bool
}

// look returns by how much the wall clock moved against the monotonic one since the
// last look, 0 when it did not. read asks both, one after the other: time that passes
// in between, on a host that is busy, is a step that the second reading takes back.
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

// lookAtClocks tells of clocks that stepped: the wall clock of this host, and the
// clocks of peers against ours.
func (n *Node) lookAtClocks() {
	both := func() (wall, mono time.Duration) {
		now := wallTime()
		return time.Duration(now.UnixNano()), now.Sub(n.start)
	}
	n.lookAtSleep()
	step := n.wall.look(both)
	slept := n.slept
	n.slept = 0
	if (step-slept).Abs() >= leastStep && step != 0 {
		n.events.Tell(slog.LevelWarn, "wall clock stepped", status.Event{
			Kind: status.EventClockStep, Text: fmt.Sprintf("wall clock of this host moved by %v: it was set; ages do not depend on it", (step - slept).Round(time.Millisecond)),
		}, "step", step-slept)
	}
	for _, l := range n.links {
		l.mu.Lock()
		step := l.stepped
		l.stepped = 0
		l.mu.Unlock()
		if step != 0 {
			l.warn("clock of a peer stepped", status.Event{
				Kind: status.EventClockStep, Text: fmt.Sprintf("monotonic clock of %s moved by %v against ours: one of the two hosts was suspended", l.host, step.Round(time.Microsecond)),
			}, "step", step)
		}
	}
}
