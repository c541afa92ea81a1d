package peers

import (
	"slices"
	"time"
)

const (
	// TrialTime is how long another way to a peer is tried.
	TrialTime   = 10 * time.Second
	trialStamps = 500 * time.Millisecond // between two stamps
	trialLast   = time.Second            // the end of a trial, without new stamps: the last one can still be answered
)

// Trial compares the way of a second session to a peer with that of the link to the peer.
type Trial struct {
	BeganAt    time.Duration
	stampedAt  time.Duration   // when the last stamp was sent
	stamps     int             // number of stamps sent
	roundTrips []time.Duration // of the stamps that were answered
	ofLink     []time.Duration // round trips of the link, one for each stamp sent
}

// Step is what is next in a trial.
type Step int

const (
	Wait   Step = iota
	Stamp       // send a stamp over the second session
	Better      // the second session becomes the link
	Worse       // the second session ends
)

// Next returns what to do now. rtt is the round trip of the link.
func (t *Trial) Next(now, rtt time.Duration) Step {
	switch since := now - t.BeganAt; {
	case since < TrialTime-trialLast && now >= t.stampedAt+trialStamps:
		t.stampedAt = now
		t.stamps++
		t.ofLink = append(t.ofLink, rtt)
		return Stamp
	case since < TrialTime:
		return Wait
	case t.isBetter():
		return Better
	}
	return Worse
}

// Answered notes the round trip of a stamp that was answered.
func (t *Trial) Answered(rtt time.Duration) { t.roundTrips = append(t.roundTrips, rtt) }

// RTT returns the median round trip so far, 0 if no stamp was answered yet.
func (t *Trial) RTT() time.Duration {
	if len(t.roundTrips) == 0 {
		return 0
	}
	return medianOf(t.roundTrips)
}

// isBetter reports whether all stamps were answered, none more slowly than the link's median
// round trip, and the median of their round trips is at most half of the link's.
func (t *Trial) isBetter() bool {
	if len(t.roundTrips) < t.stamps || len(t.roundTrips) == 0 {
		return false
	}
	link := medianOf(t.ofLink)
	return 2*medianOf(t.roundTrips) <= link && slices.Max(t.roundTrips) <= link
}

func medianOf(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
