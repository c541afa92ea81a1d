package bridge

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/pacing"
	"achbridge/bridge/rule"
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
		l.mu.Lock()
		step := l.stepped
		l.stepped = 0
		l.mu.Unlock()
		if step != 0 {
			l.warn("clock of a peer stepped", status.Event{
				Kind: status.EventClockStep, Text: fmt.Sprintf("monotonic clock of %s moved by %s against ours: one of the two hosts was suspended", l.host, unit.Time(step.Round(time.Microsecond))),
			}, "step", step)
		}
	}
}

// woke makes the node call lookAtSleep soon.
func (n *Node) woke() {
	select {
	case n.do <- n.lookAtSleep:
	default: // the queue is full: the next tick calls it
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
		l.mu.Lock()
		l.clock.Suspended(n.now(), total)
		for _, x := range l.exports.order {
			if x.sub != nil {
				x.sub.wake()
			}
		}
		l.mu.Unlock()
		l.awake()
	}
}

// wake records, for a command channel, that its present frames may be from before the host
// was suspended, since their capture times do not show that. Needs the link's mu.
func (sub *subscription) wake() {
	if sub.qos.Class != rule.Command || sub.suspended == nil {
		return
	}
	total := sub.suspended()
	if !clock.Slept(sub.asleep, total) {
		return
	}
	sub.asleep, sub.undated, sub.captured = total, sub.ch.LastSeq(), 0
}

// askClock returns when to ask for the peer's clock, at once for a datagram that
// is due now: until it is known, no command may be put. A datagram without entries
// asks, since it has to be reported; the far future when there is no need.
func (l *link) askClock(box *outbox, now time.Duration) time.Duration {
	if _, _, known := l.clock.Offset(now); known {
		return now + time.Hour
	}
	if at := box.asked + pacing.ProbeInterval; box.asked != 0 && at > now {
		return at
	}
	box.asked = now
	return now
}
