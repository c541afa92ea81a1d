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

// StampSource describes the stamps in the frames of a feed, and the clock of the host that made them.
type StampSource struct {
	Shifter *stamps.Shifter
	Start   time.Duration  // CLOCK_MONOTONIC of the host when its node started
	Boot    [16]byte       // boot id of the host
	Offset  *Offset        // shared by all mirrors of the host
	Read    func() Reading // reads the host's clock; must not be called with the mirror's mu held
}

// Offset is the difference between the CLOCK_MONOTONIC of this host and that of one origin. All mirrors of the origin
// share it, over all links. It is safe for concurrent use.
type Offset struct {
	mu     lock.Mutex[lock.Leaf] // guards follow
	follow stamps.Offset
}

// at moves the offset towards an estimate, see stamps.Offset.
func (o *Offset) at(e stamps.Estimate) (offset, err, step time.Duration, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.follow.Follow(e)
}

// shifting holds the state of the option stamps. It is guarded by the mirror's mu.
type shifting struct {
	source *StampSource // nil without the option
	buf    []byte       // the last frame with shifted stamps
	status status.Stamps
}

var (
	errNoOffset = errors.New("the clock of the origin is not known, so that the stamps in the frame cannot be shifted")
	errExpired  = errors.New("the command has expired")
)

// beginShifting prepares for the stamps of the next subscription; nil means that they are not shifted.
func (m *Mirror) beginShifting(source *StampSource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stamps.source = source
}

// readOrigin returns the present reading of the origin's clock if stamps are shifted, and the zero Reading, which means
// unknown, if they are not.
func (m *Mirror) readOrigin() Reading {
	m.mu.Lock()
	source := m.stamps.source
	m.mu.Unlock()
	if source == nil {
		return Reading{}
	}
	return source.Read()
}

// shifted returns the frame with its stamps shifted to this host's clock, and the frame itself without the option. The
// result is valid until the next call. On errNoOffset the frame can be put later, on errExpired never. m.mu must be
// held.
func (m *Mirror) shifted(f incoming) ([]byte, error) {
	s := &m.stamps
	if s.source == nil {
		return f.data, nil
	}
	if m.Clock.slept(f.at) {
		return nil, errNoOffset
	}
	offset, uncertainty, step, ok := s.source.Offset.at(stamps.Estimate{
		Now: f.at.Now, Offset: m.Clock.At - s.source.Start - f.at.Offset, Error: f.at.Uncertainty, IsKnown: f.at.Known,
		Suspended: f.at.Suspended, Boot: s.source.Boot,
	})
	if !ok {
		return nil, errNoOffset
	}
	if step != 0 {
		m.Events.Record(slog.LevelWarn, "stamps stepped", m.event(status.EventClockStep,
			fmt.Sprintf("stamps of %s are shifted by %s more than before: one of the two hosts was booted or suspended, or the clock was known badly", m.Host, unit.Time(step))), "step", step)
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
	case isCommand && expiry.Passed(m.Clock.of(m.Clock.now())):
		s.status.Expired++
		s.status.DurationMs = status.Ms(expiry.Duration)
		return nil, errExpired
	}
	return out, nil
}

// stampStatus returns the status of the option stamps, nil without it. m.mu must be held.
func (m *Mirror) stampStatus() *status.Stamps {
	if m.stamps.source == nil {
		return nil
	}
	s := m.stamps.status
	return &s
}
