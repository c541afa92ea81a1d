package clock

import "time"

// Estimator estimates the offset of the peer's clock from ours, from the two-way time stamps in feedback. The
// error of a sample is at most half its round trip plus the drift of the clocks since then. Estimator uses the
// sample of the last ten seconds with the smallest error (the clock filter of NTP, RFC 5905, section 10). A host's
// monotonic clock stops while the host is suspended. Estimator detects this when samples contradict each other,
// and then uses only the latest. It does not use wall clocks.
type Estimator struct {
	samples   [clockSamples]sample // at is 0 in unused entries
	suspended time.Duration        // total suspended time of this host at the last call of Suspended
	since     time.Duration        // exchanges that began before this time are ignored
}

type sample struct {
	at, offset, rtt time.Duration
}

const (
	clockSamples = 16
	clockSlot    = 640 * time.Millisecond // 16 slots make about ten seconds
	mostDrift    = 10_000                 // a clock gains or loses at most one part in 10,000: 100 ppm
	clockStep    = time.Millisecond       // samples contradict each other if they differ by more than their errors and this
)

// uncertainty returns the greatest error of sample s at now. The age of a sample counts from the packet with
// which its exchange began.
func (s sample) uncertainty(now time.Duration) time.Duration {
	return s.rtt/2 + max(now-s.at+s.rtt, 0)/mostDrift
}

// leastSuspension is shorter than any suspension, and much shorter than any budget.
const leastSuspension = time.Millisecond

// Slept reports whether a host was suspended between two times. then and now are its total suspended times at
// these times.
func Slept(then, now time.Duration) bool { return now-then >= leastSuspension }

// Suspended sets the total time for which this host has been suspended. If the total has grown, the offset is
// unknown until an exchange that begins at now or later, since packets received before may be of any age.
func (c *Estimator) Suspended(now, total time.Duration) {
	if Slept(c.suspended, total) {
		c.samples, c.since = [clockSamples]sample{}, now
	}
	c.suspended = max(c.suspended, total)
}

// KnownAt returns the total suspended time of this host when the current Offset was measured.
func (c *Estimator) KnownAt() time.Duration { return c.suspended }

// Sample records one exchange. Our packet was sent at sent (our clock) and reached the peer at arrived (the
// peer's clock). The peer's report was sent at reported (the peer's clock) and arrived at now (our clock). If
// one of the two clocks stopped since the last sample, step is how far the peer's clock has moved relative to
// ours; otherwise it is 0.
func (c *Estimator) Sample(sent, arrived, reported, now time.Duration) (step time.Duration) {
	rtt := (now - sent) - (reported - arrived)
	if rtt < 0 || sent < c.since {
		return 0
	}
	s := sample{at: now, offset: ((arrived - sent) + (reported - now)) / 2, rtt: rtt}
	if c.contradicts(s) {
		if before, _, ok := c.Offset(now); ok {
			step = s.offset - before
		}
		c.samples = [clockSamples]sample{}
	}
	slot := &c.samples[int(now/clockSlot)%clockSamples]
	if slot.at == 0 || slot.at/clockSlot != now/clockSlot || s.uncertainty(now) <= slot.uncertainty(now) {
		*slot = s
	}
	return step
}

// contradicts reports whether s and a stored sample cannot both be correct.
func (c *Estimator) contradicts(s sample) bool {
	for _, o := range c.samples {
		if o.at != 0 && (s.offset-o.offset).Abs() > s.uncertainty(s.at)+o.uncertainty(s.at)+clockStep {
			return true
		}
	}
	return false
}

// Offset returns the peer's clock minus ours, with an error of at most uncertainty. ok is false before the first
// sample, and when the last one is older than ten seconds.
func (c *Estimator) Offset(now time.Duration) (offset, uncertainty time.Duration, ok bool) {
	best, found := sample{}, false
	for _, s := range c.samples {
		if s.at == 0 || now-s.at > clockSamples*clockSlot {
			continue
		}
		if !found || s.uncertainty(now) < best.uncertainty(now) {
			best, found = s, true
		}
	}
	if !found {
		return 0, 0, false
	}
	return best.offset, best.uncertainty(now), true
}
