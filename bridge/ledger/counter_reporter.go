package ledger

import "time"

// Reporter decides when counters are sent to the peer again.
type Reporter struct {
	Said, Before FrameCounters
	at           time.Duration
}

// Due reports whether to send counters a now: they changed since they were last sent, and either every has
// passed or traffic has stopped. moving returns a counter that grows while there is traffic.
func (t *Reporter) Due(now, every time.Duration, a FrameCounters, moving func(FrameCounters) uint64) bool {
	rests := moving(a) == moving(t.Before)
	t.Before = a
	if a == t.Said || !rests && now < t.at+every {
		return false
	}
	t.Said, t.at = a, now
	return true
}
