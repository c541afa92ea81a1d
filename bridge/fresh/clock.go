package fresh

import "time"

// Clock estimates how far the peer's clock is from ours from the two-way time
// stamps in feedback. A sample is wrong by half its round trip at most, and by
// what the clocks have drifted since; of those of the last ten seconds the one
// with the least of both counts (the clock filter of NTP, RFC 5905, 10). A host
// that is suspended has its monotonic clock stand still: samples that contradict
// each other tell that, and then the latest alone counts. No wall clock is involved.
type Clock struct {
	samples   [clockSamples]sample // at 0: none
	suspended time.Duration        // for how long this host had been, when it was told last
	since     time.Duration        // exchanges that began before tell nothing
}

type sample struct {
	at, offset, rtt time.Duration
}

const (
	clockSamples = 16
	clockSlot    = 640 * time.Millisecond // 16 slots make about ten seconds
	mostDrift    = 10_000                 // a clock gains or loses one part in so many: 100 ppm
	clockStep    = time.Millisecond       // samples that miss each other by less are no contradiction
)

// uncertainty is how far the peer's clock may be from what s says at now. The
// sample is as old as the packet that it began with.
func (s sample) uncertainty(now time.Duration) time.Duration {
	return s.rtt/2 + max(now-s.at+s.rtt, 0)/mostDrift
}

// leastSuspension is the shortest time for which a host can be suspended, and far
// below any budget.
const leastSuspension = time.Millisecond

// Slept reports whether a host that had been suspended for then in all, and for now a
// while later, was suspended in between: its clock stood still.
func Slept(then, now time.Duration) bool { return now-then >= leastSuspension }

// Suspended sets the total time for which this host has been suspended. When that has
// grown, the offset is unknown until an exchange that begins at now or later: what
// arrived in between may be of any age.
func (c *Clock) Suspended(now, total time.Duration) {
	if Slept(c.suspended, total) {
		c.samples, c.since = [clockSamples]sample{}, now
	}
	c.suspended = max(c.suspended, total)
}

// KnownAt returns the total time for which this host had been suspended when the current
// Offset was learnt.
func (c *Clock) KnownAt() time.Duration { return c.suspended }

// Sample records one exchange: our packet left at sent (our clock) and reached the peer
// at arrived (its clock); the peer's report left at reported (its clock) and arrived at
// now (our clock). When one of the two clocks stood still since the last sample, step is
// how far the peer's clock has moved against ours; otherwise it is 0.
func (c *Clock) Sample(sent, arrived, reported, now time.Duration) (step time.Duration) {
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

// contradicts reports that a sample cannot be right together with one that is kept.
func (c *Clock) contradicts(s sample) bool {
	for _, o := range c.samples {
		if o.at != 0 && (s.offset-o.offset).Abs() > s.uncertainty(s.at)+o.uncertainty(s.at)+clockStep {
			return true
		}
	}
	return false
}

// Offset is the peer's clock minus ours, wrong by uncertainty at most. ok is
// false before the first sample, and when the last is older than ten seconds.
func (c *Clock) Offset(now time.Duration) (offset, uncertainty time.Duration, ok bool) {
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
