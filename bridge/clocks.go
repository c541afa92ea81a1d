package bridge

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"achbridge/bridge/fresh"
	"achbridge/bridge/rule"
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

// woke has lookAtSleep run soon.
func (n *Node) woke() {
	select {
	case n.do <- n.lookAtSleep:
	default: // it comes with the next tick
	}
}

// lookAtSleep sees to it that nothing that waited anywhere while the host was suspended
// passes for new: the peers' clocks are asked for anew, and commands that peers have not
// got by now are not sent.
func (n *Node) lookAtSleep() {
	total := n.clock.Suspended()
	slept := total - n.asleep
	if !fresh.Slept(n.asleep, total) {
		return
	}
	n.asleep = total
	n.slept += slept
	n.events.Tell(slog.LevelWarn, "host was suspended", status.Event{
		Kind: status.EventClockStep, Text: fmt.Sprintf("this host was suspended for %v: commands of before are not put, and ages do not count that time", slept.Round(time.Millisecond)),
	}, "step", slept)
	for _, l := range slices.Concat(slices.Collect(maps.Values(n.links)), slices.Collect(maps.Values(n.spares))) {
		l.mu.Lock()
		l.clock.Suspended(n.now(), total)
		for _, e := range l.order {
			e.wake()
		}
		l.mu.Unlock()
		l.awake()
	}
}

// wake notes, of a command channel, that the frames that are there now may have been put
// before the host was suspended, which their capture times do not tell. Needs the link's
// mu, as load does.
func (e *export) wake() {
	if e.qos.Class != rule.Command || e.suspended == nil {
		return
	}
	total := e.suspended()
	if !fresh.Slept(e.asleep, total) {
		return
	}
	e.asleep, e.undated, e.captured = total, e.ch.LastSeq(), 0
}
