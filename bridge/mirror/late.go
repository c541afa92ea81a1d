package mirror

import (
	"time"

	"achbridge/bridge/rule"
)

// late reports whether a frame is past its budget. Ages are uncertain by the error of the peer's clock: a state
// frame is late if it must be late, a command if it may be late.
func (m *Mirror) late(a Arrival) bool {
	switch {
	case m.qos.Mode == rule.Every:
		return false
	case m.qos.Class == rule.Command && m.Clock.slept(a.At):
		return true
	case a.Captured == 0 || !a.At.Known:
		return a.LastValue || a.Past || m.qos.Class == rule.Command // only the origin can know the age
	}
	return m.left(a) < 0
}

// left returns the remaining budget of a frame whose age is known. It is negative for a late frame.
func (m *Mirror) left(a Arrival) time.Duration {
	age := a.At.Now - (a.Captured - a.At.Offset)
	if m.qos.Class == rule.Command {
		return m.qos.EffectiveBudget() - max(0, age+a.At.Uncertainty)
	}
	return m.qos.EffectiveBudget() - max(0, age-a.At.Uncertainty)
}

// lateIsPut reports whether a late frame is put if it is the newest.
func (m *Mirror) lateIsPut(a Arrival) bool {
	return m.qos.EffectiveLate() != rule.LateDrop || a.LastValue && m.qos.Class != rule.Command
}

// lateness counts the late frames since the last frame in time.
type lateness struct {
	frames int
	since  time.Duration
	last   uint64 // sequence number of the last late frame, which the origin may retransmit
}

// Only late frames arrive if at least lateRow of them arrived in a row, over at least lateSpan. A single late
// frame may be the last one of a channel, or the first one of a subscription. Many late frames at once arrive
// after a stall of the link.
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

// only reports whether only late frames arrive.
func (l *lateness) only(now time.Duration) bool {
	return l.frames >= lateRow && now-l.since >= lateSpan
}
