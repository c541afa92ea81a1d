package bridge

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/layout"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
	"achbridge/bridge/trust"
	"achbridge/bridge/unit"
	"achbridge/localach"
	"achbridge/wire"
)

// leastStep is the smallest change of the wall clock relative to the monotonic clock that counts
// as a step. A step means that the wall clock was set, or that the host was suspended, which stops
// the monotonic clock.
const leastStep = 100 * time.Millisecond

// wallClock detects that the wall clock was set or that the host was suspended.
type wallClock struct {
	wall, mono time.Duration // at the last call of look
	isSet      bool
}

// step returns how far the wall clock has moved relative to the monotonic clock since the last
// call, 0 if it has not. read returns the two clocks, which it reads one after the other. On a
// busy host time may pass between the two reads, which looks like a step. A second reading then
// cancels it.
func (w *wallClock) step(read func() (wall, mono time.Duration)) time.Duration {
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
	known := w.isSet
	w.wall, w.mono, w.isSet = wall, mono, true
	if !known || step.Abs() < leastStep {
		return 0
	}
	return step
}

// clocks are the clocks of a node. start, mirror and ring do not change; the other fields belong
// to the node's goroutine.
type clocks struct {
	start  time.Time
	mirror mirror.Clock
	ring   ring.Clock

	wall      wallClock
	suspended time.Duration // total time in suspend, at the last call of sleep
	sleptFor  time.Duration // time in suspend since the last call of step
}

// newClocks returns clocks that start now. They call woke, on any goroutine, when a mirror finds
// that the host was suspended.
func newClocks(cfg *Config, woke func()) clocks {
	c := clocks{start: wallTime()}
	now := func() time.Duration { return time.Since(c.start) }
	c.ring = ring.Clock{Now: now, LastPoll: func() time.Duration { return cfg.Source.LastPoll().Sub(c.start) }}
	c.mirror = mirror.Clock{Now: now, At: status.Monotonic(c.start), Suspended: cfg.testing.suspended, Woke: woke}
	if c.mirror.Suspended == nil {
		c.mirror.Suspended = localach.Suspended
	}
	if cfg.testing.monotonic != nil {
		c.mirror.At = cfg.testing.monotonic()
	}
	c.suspended = c.mirror.Suspended()
	return c
}

// sinceBoot returns CLOCK_BOOTTIME, which counts while the host is suspended.
func (c *clocks) sinceBoot() time.Duration {
	return c.mirror.At + time.Since(c.start) + c.mirror.Suspended()
}

// step returns how far the wall clock has moved relative to the monotonic clock since the last
// call. set is the part of moved that was not caused by a suspend: somebody set the clock.
func (c *clocks) step() (moved, set time.Duration) {
	moved = c.wall.step(func() (wall, mono time.Duration) {
		now := wallTime()
		return time.Duration(now.UnixNano()), now.Sub(c.start)
	})
	set = moved - c.sleptFor
	c.sleptFor = 0
	return moved, set
}

// sleep returns how long the host was suspended since the last call, 0 if it was not, and the
// total time in suspend.
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

// checkClocks logs steps of this host's wall clock, and steps of peers' clocks against ours.
func (n *Node) checkClocks() {
	n.checkSuspend()
	moved, set := n.clocks.step()
	n.shared.publishers.WallClockMoved(moved)
	if set.Abs() >= leastStep && moved != 0 {
		n.events.Record(slog.LevelWarn, "wall clock stepped", status.Event{
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

// checkSuspend makes sure that, after a suspend, no older frame counts as new. The node measures
// the offsets of the peers' clocks again. Commands that were waiting to be sent are dropped.
func (n *Node) checkSuspend() {
	slept, total := n.clocks.sleep()
	if slept == 0 {
		return
	}
	n.events.Record(slog.LevelWarn, "host was suspended", status.Event{
		Kind: status.EventClockStep, Text: fmt.Sprintf("this host was suspended for %s: commands of before are not put, and ages do not count that time", unit.Time(slept.Round(time.Millisecond))),
	}, "step", slept)
	for _, l := range slices.Concat(slices.Collect(maps.Values(n.links)), slices.Collect(maps.Values(n.spares))) {
		l.frames.Suspended(n.now(), total)
	}
}

// stampState is how the stamps in the frames of a mirror are shifted: by an offset that all mirrors of the origin
// share, and in the fields of a layout.
type stampState struct {
	*mirror.Offset
	origin trust.NodeID
	layout wire.Hash // layout that has the fields of the rule, zero if the rule names no fields
}

// stampSource returns how the stamps in the frames of channel c are shifted for m, a mirror that requests it. It returns
// an error if they cannot be shifted.
func (n *Node) stampSource(m *binding, l *link, c wire.Channel, qos rule.QoS) (*mirror.StampSource, error) {
	switch {
	case qos.Stamps == "":
		m.stamps = stampState{}
		return nil, nil
	case c.Origin != nil:
		return nil, fmt.Errorf("stamps %s: %s passes on a channel of %s, and does not name the clock of the stamps; mirror it from %s, or leave the option out", qos.Stamps, l.host, c.Origin.Host, c.Origin.Host)
	case l.hello.start == 0 || l.hello.machine.Boot == (Machine{}.Boot):
		return nil, fmt.Errorf("stamps %s: %s does not tell its monotonic clock; update %s", qos.Stamps, l.host, l.host)
	}
	shifter, err := n.stampShifter(m, l, c, qos.Stamps)
	if err != nil {
		return nil, fmt.Errorf("stamps %s: %w", qos.Stamps, err)
	}
	m.stamps = stampState{n.mirrors.stampOffset(l.peer), l.peer, n.stampLayout(m, c, qos.Stamps)}
	return &mirror.StampSource{
		Shifter: shifter, Start: l.hello.start, Boot: l.hello.machine.Boot, Offset: m.stamps.Offset,
		Read: func() mirror.Reading { return l.frames.ReadClock(n.now()) },
	}, nil
}

// stampLayout returns the hash of the layout that has the fields of a rule for the frames of channel c, which m mirrors,
// and zero if the rule names no fields.
func (n *Node) stampLayout(m *binding, c wire.Channel, r stamps.Rule) wire.Hash {
	if !r.NeedsLayout() {
		return wire.Hash{}
	}
	if ours := n.layoutRule(m); ours != nil {
		return ours.Hash()
	}
	return c.Layout
}

// stampShifter compiles a rule for the frames of channel c, which m mirrors from l's host. It returns an error while the
// layout that the rule needs is not known.
func (n *Node) stampShifter(m *binding, l *link, c wire.Channel, r stamps.Rule) (*stamps.Shifter, error) {
	if !r.NeedsLayout() {
		return r.Compile(nil)
	}
	encoded, err := n.encodedLayout(m, l, c)
	if err != nil {
		return nil, err
	}
	fields, err := layout.DecodeLayout(encoded)
	if err != nil {
		return nil, err
	}
	return r.Compile(fields)
}

// stampOffset returns the offset for the stamps of an origin. The offset lasts as long as a mirror has it, so that a
// change of the link does not move the stamps.
func (t *mirrorTable) stampOffset(origin trust.NodeID) *mirror.Offset {
	for _, m := range t.byName {
		if m.stamps.Offset != nil && m.stamps.origin == origin {
			return m.stamps.Offset
		}
	}
	return &mirror.Offset{}
}
