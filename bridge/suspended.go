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
