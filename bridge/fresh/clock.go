package fresh

import "time"

// Clock estimates how far the peer's clock is from ours from the two-way time
// stamps in feedback: the sample with the least round trip of the last ten
// seconds counts, since the least delayed packet was the least disturbed (the
// minimum filter of NTP, RFC 5905, 10). No wall clock is involved.
type Clock struct {
	samples [clockSamples]sample // at 0: none
}

type sample struct {
	at, offset, rtt time.Duration
}

const (
	clockSamples = 16
	clockSlot    = 640 * time.Millisecond // 16 slots make about ten seconds
)

// Sample takes one exchange: our packet left at sent (our clock), reached the
// peer at arrived (its clock); the peer's report left at reported (its clock)
// and is here at now (our clock).
func (c *Clock) Sample(sent, arrived, reported, now time.Duration) {
	rtt := (now - sent) - (reported - arrived)
	if rtt < 0 {
		return
	}
	s := sample{at: now, offset: ((arrived - sent) + (reported - now)) / 2, rtt: rtt}
	slot := &c.samples[int(now/clockSlot)%clockSamples]
	if slot.at == 0 || slot.at/clockSlot != now/clockSlot || rtt <= slot.rtt {
		*slot = s
	}
}

// Offset is the peer's clock minus ours; uncertainty is half the round trip of
// the sample it rests on. ok is false before the first sample.
func (c *Clock) Offset(now time.Duration) (offset, uncertainty time.Duration, ok bool) {
	best, found := sample{}, false
	for _, s := range c.samples {
		if s.at == 0 || now-s.at > clockSamples*clockSlot {
			continue
		}
		if !found || s.rtt < best.rtt {
			best, found = s, true
		}
	}
	return best.offset, best.rtt / 2, found
}
