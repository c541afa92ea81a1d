package bridge

import (
	"fmt"
	"log/slog"
	"maps"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/layout"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
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
	at, now := status.Monotonic(c.start), func() time.Duration { return time.Since(c.start) }
	if monotonic := cfg.testing.monotonic; monotonic != nil {
		at = monotonic()
		now = func() time.Duration { return monotonic() - at }
	}
	c.ring = ring.Clock{Now: now, LastPoll: func() time.Duration { return now() - time.Since(cfg.Source.LastPoll()) }}
	c.mirror = mirror.Clock{Now: now, At: at, Suspended: cfg.testing.suspended, Woke: woke}
	if c.mirror.Suspended == nil {
		c.mirror.Suspended = localach.Suspended
	}
	c.suspended = c.mirror.Suspended()
	return c
}

// sinceBoot returns CLOCK_BOOTTIME, which counts while the host is suspended.
func (c *clocks) sinceBoot() time.Duration { return c.mirror.SinceBoot(c.mirror.Now()) }

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
	for _, m := range n.mirrors.byName {
		if m.stamps.passed != nil {
			m.stamps.passed = nil // until the offset is measured again
			n.loop.changed()
		}
	}
	n.events.Record(slog.LevelWarn, "host was suspended", status.Event{
		Kind: status.EventClockStep, Text: fmt.Sprintf("this host was suspended for %s: commands of before are not put, and ages do not count that time", unit.Time(slept.Round(time.Millisecond))),
	}, "step", slept)
	for _, l := range n.linksAndSpares() {
		l.frames.Suspended(n.now(), total)
	}
}

// stampState is what a mirror knows about the stamps in its frames.
type stampState struct {
	layout wire.Hash   // layout that has the fields of the option stamps, zero if it names no fields
	clock  wire.Clock  // clock of the stamps that arrive, zero if it is not known
	inFile clockID     // clock of the stamps that are put, zero if it is not known
	passed *wire.Clock // clock of the stamps that are put, as catalogs name it; nil if they name none
}

// stampClock returns the clock by which the stamps in the frames of a channel of l's peer count, and the zero Clock if it
// is not known.
func (l *link) stampClock(c wire.Channel) wire.Clock {
	switch {
	case l.hello.start == 0 || l.hello.machine.Boot == (Machine{}.Boot):
		return wire.Clock{}
	case c.Origin == nil:
		return wire.Clock{Node: l.peer, Host: l.host, Boot: l.hello.machine.Boot}
	case c.Clock == nil:
		return wire.Clock{}
	}
	return *c.Clock
}

// mirrorClock returns the clock for a mirror that l feeds.
func (n *Node) mirrorClock(l *link, c wire.Clock) mirror.StampClock {
	return mirror.StampClock{
		Host: c.Host, Boot: c.Boot, Offset: n.mirrors.stampOffset(c), Start: l.hello.start, IsRelayed: c.Node != l.peer, Ahead: c.Offset, Error: c.Error,
	}
}

// stampSource returns the clock of the stamps in the frames of channel c, and how they are shifted for m, a mirror that
// requests it. The source is nil if the clock is not known. stampSource returns an error if the option stamps needs more.
func (n *Node) stampSource(m *binding, l *link, c wire.Channel, qos rule.QoS) (*mirror.StampSource, stampState, error) {
	clock := l.stampClock(c)
	state := stampState{layout: n.stampLayout(m, c, qos.Stamps), clock: clock, inFile: clockID{clock.Node, clock.Boot}}
	var shifter *stamps.Shifter
	if qos.Stamps != "" {
		err := l.noStampClock(c, clock)
		if err == nil {
			shifter, err = n.stampShifter(m, l, c, qos.Stamps)
		}
		if err != nil {
			return nil, state, fmt.Errorf("stamps %s: %w", qos.Stamps, err)
		}
		state.inFile = clockID{n.cfg.Node, n.cfg.Machine.Boot}
	}
	if clock == (wire.Clock{}) {
		return nil, state, nil
	}
	return &mirror.StampSource{StampClock: n.mirrorClock(l, clock), Shifter: shifter, Read: func() mirror.Reading { return l.frames.ReadClock(n.now()) }}, state, nil
}

// setStamps records what a new subscription of m knows about the stamps. If frames with stamps of another clock follow,
// it ends the subscriptions of peers, which would treat them as stamps of the former clock.
func (n *Node) setStamps(m *binding, s stampState) {
	former := m.stamps
	m.stamps = s
	switch former.inFile {
	case s.inFile:
		m.stamps.passed = former.passed
	case clockID{}:
	default:
		n.endExports(m.Name)
	}
}

// noStampClock returns why the clock of the stamps in the frames of channel c is not known, nil if it is.
func (l *link) noStampClock(c wire.Channel, clock wire.Clock) error {
	switch {
	case clock != (wire.Clock{}):
		return nil
	case c.Origin == nil || l.hello.start == 0:
		return fmt.Errorf("%s does not tell its monotonic clock; update %s", l.host, l.host)
	}
	return fmt.Errorf("%s passes on a channel of %s, and does not name the clock of the stamps, or not yet; if that stays so, update %s and %s, or mirror it from %s", l.host, c.Origin.Host, l.host, c.Origin.Host, c.Origin.Host)
}

// isCurrent reports whether the subscription of m can go on with channel c as its origin describes it now. It passes on
// to the mirror what the origin has measured of the clock of the stamps.
func (n *Node) isCurrent(m *binding, l *link, c wire.Channel, qos rule.QoS) bool {
	clock, former := l.stampClock(c), m.stamps.clock
	switch {
	case m.stamps.layout != n.stampLayout(m, c, qos.Stamps):
		return false
	case clock == former:
	case clock == (wire.Clock{}) && qos.Stamps == "":
		m.stamps.clock = clock // the frames go on, but peers cannot shift their stamps
	case clock.Node != former.Node || clock.Boot != former.Boot:
		return false
	default:
		m.stamps.clock = clock
		m.FollowClock(n.mirrorClock(l, clock))
	}
	return true
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

// clockID identifies a CLOCK_MONOTONIC.
type clockID struct{ node, boot [16]byte }

// stampOffset returns the offset for stamps of a clock. It lasts at least as long as a mirror has it, so that neither a
// change of the link nor one of the host that feeds a mirror moves the stamps.
func (t *mirrorTable) stampOffset(c wire.Clock) *mirror.Offset {
	id := clockID{c.Node, c.Boot}
	if o := t.offsets[id]; o != nil {
		return o
	}
	if len(t.offsets) >= maxPins {
		t.dropOffsets()
	}
	o := &mirror.Offset{}
	for other, before := range t.offsets {
		if other.node == c.Node {
			o = before.Rebooted()
		}
	}
	t.offsets[id] = o
	return o
}

// dropOffsets forgets the offsets that no mirror has.
func (t *mirrorTable) dropOffsets() {
	used := make(map[clockID]bool)
	for _, m := range t.byName {
		used[clockID{m.stamps.clock.Node, m.stamps.clock.Boot}] = true
	}
	maps.DeleteFunc(t.offsets, func(id clockID, _ *mirror.Offset) bool { return !used[id] })
}

// leastPassed is the least margin of a clock that is passed on, see passedClock.
const leastPassed = time.Millisecond

// passedClock returns the clock that catalogs name, given the one that they name now. Catalogs do not follow each change:
// a margin of a quarter of the error, and 1 ms at least, is added to the error, and the clock stays the same while
// the margin covers the change.
func passedClock(passed *wire.Clock, c wire.Clock) *wire.Clock {
	margin := max(leastPassed, c.Error/4)
	if passed != nil && passed.Node == c.Node && passed.Boot == c.Boot {
		covers := (c.Offset-passed.Offset).Abs()+c.Error+margin/4 <= passed.Error
		if covers && passed.Error <= 2*(c.Error+margin) {
			return passed
		}
	}
	c.Error += margin
	return &c
}

// passClocks updates the clocks that catalogs name for the mirrors that peers may read.
func (n *Node) passClocks() {
	for _, m := range n.mirrors.byName {
		local := n.locals.Get(m.Name)
		isOffered := local.IsOpen() && local.IsMirror && (local.Reason == "" || n.pushes.any(func(p *push) bool { return p.Channel == m.Name }))
		var now *wire.Clock
		if isOffered {
			now = n.clockOfMirror(m)
		}
		if now != m.stamps.passed {
			m.stamps.passed = now
			n.loop.changed()
		}
	}
}

// clockOfMirror returns the clock by which the stamps of the frames in a mirror count, nil if it is not known. They count
// by this host's clock if the mirror has shifted them.
func (n *Node) clockOfMirror(m *binding) *wire.Clock {
	offset, uncertainty, ok := m.StampOffset(m.reading(n.now(), n.clocks.suspended))
	if !ok || m.stamps.clock == (wire.Clock{}) || n.cfg.Machine.Boot == (Machine{}.Boot) || offset.Abs() > wire.MaxClockOffset/2 || uncertainty > wire.MaxClockOffset/2 {
		return nil
	}
	qos, _ := m.Holds()
	switch {
	case m.stamps.inFile != clockID{n.cfg.Node, n.cfg.Machine.Boot}: // not shifted, whatever is requested by now
		return passedClock(m.stamps.passed, wire.Clock{Node: m.stamps.clock.Node, Host: m.stamps.clock.Host, Boot: m.stamps.clock.Boot, Offset: offset, Error: uncertainty})
	case qos.Class == rule.Command:
		uncertainty = 0 // it is subtracted already
	}
	return passedClock(m.stamps.passed, wire.Clock{Node: n.cfg.Node, Host: n.cfg.Host, Boot: n.cfg.Machine.Boot, Error: uncertainty})
}

// leastApart is the difference of two hosts' CLOCK_MONOTONIC below which stamps that are not shifted cause no warning.
const leastApart = time.Second

// unshifted returns a report that the stamps in the frames of a mirror should be shifted, nil if not.
func (n *Node) unshifted(m *binding) *status.Unshifted {
	guess := n.layouts.Stamps(m.remoteChannel().layout)
	if ours := n.layoutRule(m); ours != nil {
		guess = ours.Stamps()
	}
	qos, _ := m.Holds()
	if guess == "" || qos.Stamps != "" || m.link == nil {
		return nil
	}
	offset, _, ok := m.StampOffset(m.reading(n.now(), n.clocks.suspended))
	if !ok || offset.Abs() < leastApart {
		return nil
	}
	uptime := n.clocks.mirror.At + n.now()
	return &status.Unshifted{Host: m.stamps.clock.Host, Rule: string(guess), UptimeS: uptime.Seconds(), OriginUptimeS: (uptime - offset).Seconds()}
}
