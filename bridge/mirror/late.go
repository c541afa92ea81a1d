package mirror

import (
	"time"

	"achbridge/bridge/rule"
)

// late judges a frame by its age, which is known as well as the peer's clock is:
// a state is late when it must be, a command when it may be.
func (m *Mirror) late(a Arrival) bool {
	switch {
	case m.qos.Mode == rule.Every:
		return false
	case m.qos.Class == rule.Command && m.Clock.slept(a.At):
		return true
	case a.Captured == 0 || !a.At.Known:
		return a.Owed || a.Past || m.qos.Class == rule.Command // the origin knows, or nobody
	}
	return m.left(a) < 0
}

// left is what is left of a frame's budget, when its age is known.
func (m *Mirror) left(a Arrival) time.Duration {
	age := a.At.Now - (a.Captured - a.At.Offset)
	if m.qos.Class == rule.Command {
		return m.qos.EffectiveBudget() - max(0, age+a.At.Uncertainty)
	}
	return m.qos.EffectiveBudget() - max(0, age-a.At.Uncertainty)
}

// lateIsPut reports whether a late frame is put all the same, if it is the newest.
func (m *Mirror) lateIsPut(a Arrival) bool {
	return m.qos.EffectiveLate() != rule.LateDrop || a.Owed && m.qos.Class != rule.Command
}

// lateness is how many frames in a row came late, and since when.
type lateness struct {
	frames int
	since  time.Duration
	last   uint64 // number of the last one, which may come again as a debt
}

// So many late frames in a row over so long tell that only such come. One alone may be the
// last word of a channel that fell silent, or the first one of a subscription; many at once
// come behind a standstill of the link.
const (
	lateRow  = 2
	lateSpan = time.Second
)

func (l *lateness) add(seq uint64, now time.Duration) {
	switch {
	case seq == l.last:
		return
	case l.frames == 0:
		l.since = now
	}
	l.frames, l.last = l.frames+1, seq
}

// only reports whether nothing but late frames comes.
func (l *lateness) only(now time.Duration) bool {
	return l.frames >= lateRow && now-l.since >= lateSpan
}
