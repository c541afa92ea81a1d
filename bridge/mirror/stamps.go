package mirror

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/lock"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
	"achbridge/bridge/unit"
)

// StampSource describes the stamps in the frames of a feed, and the clock by which they count.
type StampSource struct {
	StampClock
	Shifter *stamps.Shifter // nil if the stamps are not shifted
	Read    func() Reading  // reads the clock of the feed's host; must not be called with the mirror's mu held
}

// StampClock is the clock by which the stamps in the frames of a feed count: the CLOCK_MONOTONIC of the feed's host, or
// of another host from which that host gets the frames.
type StampClock struct {
	Host   string        // name of the clock's host
	Boot   [16]byte      // boot id of that host
	Offset *Offset       // shared by all mirrors with stamps of this clock
	Start  time.Duration // CLOCK_MONOTONIC of the feed's host when its node started

	// The feed's host measured the following.
	IsRelayed bool          // the clock is another host's
	Ahead     time.Duration // CLOCK_MONOTONIC of the feed's host minus the clock
	Error     time.Duration // greatest error of Ahead, or of stamps that the feed's host has shifted
}

// follow moves the offset of the stamps by a reading of the clock of the feed's host, see stamps.Offset.
func (s *StampClock) follow(c Clock, at Reading) (offset, err, step time.Duration, ok bool) {
	if c.slept(at) {
		return 0, 0, 0, false
	}
	e := stamps.Estimate{
		Now: at.Now, Offset: c.At - s.Start - at.Offset, Error: at.Uncertainty, IsKnown: at.Known, Suspended: at.Suspended,
		Boot: s.Boot, IsRelayed: s.IsRelayed,
	}
	if s.IsRelayed {
		e.Offset, e.Error = e.Offset+s.Ahead, e.Error+s.Error
		return s.Offset.at(e)
	}
	offset, err, step, ok = s.Offset.at(e)
	return offset, err + s.Error, step, ok
}

// Offset is the difference between the CLOCK_MONOTONIC of this host and that of another. All mirrors with stamps of that
// clock share it, over all links. It is safe for concurrent use.
type Offset struct {
	mu     lock.Mutex[lock.Leaf] // guards follow
	follow stamps.Offset
}

// Rebooted returns the offset for the next boot of the clock's host. It reports how far it steps.
func (o *Offset) Rebooted() *Offset {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &Offset{follow: o.follow}
}

// at moves the offset towards an estimate, see stamps.Offset.
func (o *Offset) at(e stamps.Estimate) (offset, err, step time.Duration, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.follow.Follow(e)
}

// shifting holds the state of the option stamps. It is guarded by the mirror's mu.
type shifting struct {
	source     *StampSource // nil if the clock of the stamps is not known, which the option needs
	isMeasured bool         // the feed's clock has been known since the subscription began; before, its host may have been suspended
	kind       stampKind    // kind of the last source
	hasFormer  bool         // the newest frame in the file may have stamps of another clock than the next ones
	buf        []byte       // the last frame with shifted stamps
	status     status.Stamps
}

var (
	errNoOffset = errors.New("the clock of the origin is not known, so that the stamps in the frame cannot be shifted")
	errExpired  = errors.New("the command has expired")
)

// beginShifting prepares for the stamps of the next subscription; nil means that they are not shifted, and their clock is
// not known. m.mu must be held.
func (m *Mirror) beginShifting(source *StampSource) {
	m.stamps.source, m.stamps.isMeasured = source, false
	if source == nil {
		return
	}
	kind := stampKind{source.Offset, source.Shifter != nil}
	changed := kind != m.stamps.kind // also at the first subscription: the rule may have been changed while no daemon ran
	m.stamps.kind = kind
	m.stamps.hasFormer = m.stamps.hasFormer || changed && m.file.ch != nil && m.file.ch.LastSeq() != 0
}

// stampKind identifies the clock of the stamps that are put.
type stampKind struct {
	offset    *Offset // offset of the clock that arrives
	isShifted bool
}

// FollowClock replaces what the feed's host has measured of the clock of the stamps. The clock is the same.
func (m *Mirror) FollowClock(c StampClock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stamps.source != nil {
		source := *m.stamps.source
		source.StampClock = c
		m.stamps.source = &source
	}
}

// StampOffset returns how far the clock of the stamps is behind this host's, by a reading of the clock of the feed's host,
// and the greatest error. It returns false while that is not known, or while the newest frame in the file may have other
// stamps.
func (m *Mirror) StampOffset(at Reading) (offset, err time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stamps.source == nil || m.stamps.hasFormer {
		return 0, 0, false
	}
	return m.followClock(at)
}

// followClock moves the offset of the stamps, and records an event if it steps. m.mu must be held.
func (m *Mirror) followClock(at Reading) (offset, err time.Duration, ok bool) {
	offset, err, step, ok := m.stamps.source.follow(m.Clock, at)
	if step != 0 {
		m.Events.Record(slog.LevelWarn, "stamps stepped", m.event(status.EventClockStep,
			fmt.Sprintf("the clock of the stamps, that of %s, moved by %s against ours: one of the two hosts was booted or suspended, or the clock was known badly", m.stamps.source.Host, unit.Time(-step))), "step", step)
	}
	return offset, err, ok
}

// readOrigin returns the present reading of the origin's clock if stamps are shifted, and the zero Reading, which means
// unknown, if they are not.
func (m *Mirror) readOrigin() Reading {
	m.mu.Lock()
	source := m.stamps.source
	m.mu.Unlock()
	if source == nil || source.Shifter == nil {
		return Reading{}
	}
	return source.Read()
}

// shifted returns the frame with its stamps shifted to this host's clock, and the frame itself without the option. The
// result is valid until the next call. On errNoOffset the frame can be put later, on errExpired never. m.mu must be
// held.
func (m *Mirror) shifted(f incoming) ([]byte, error) {
	s := &m.stamps
	if s.source == nil || s.source.Shifter == nil {
		return f.data, nil
	}
	s.isMeasured = s.isMeasured || f.at.Known
	offset, uncertainty, ok := m.followClock(f.at)
	if !ok || !s.isMeasured {
		return nil, errNoOffset
	}
	isCommand := m.qos.Class == rule.Command
	by := stamps.By{Time: offset, Expiry: offset}
	if isCommand {
		by.Expiry -= uncertainty // no command lives longer than its sender meant
	}
	out, expiry, err := s.source.Shifter.Shift(s.buf[:0], f.data, by)
	s.buf = out
	s.status.OffsetS, s.status.ErrorMs = offset.Seconds(), status.Ms(uncertainty)
	switch {
	case err != nil && isCommand:
		return nil, err
	case err != nil:
		s.status.Unparsed++
		return f.data, nil
	case isCommand && expiry.Passed(m.Clock.Of(m.Clock.now())):
		s.status.Expired++
		s.status.DurationMs = status.Ms(expiry.Duration)
		return nil, errExpired
	}
	return out, nil
}

// stampStatus returns the status of the option stamps, nil without it. m.mu must be held.
func (m *Mirror) stampStatus() *status.Stamps {
	if m.stamps.source == nil || m.stamps.source.Shifter == nil {
		return nil
	}
	s := m.stamps.status
	return &s
}
