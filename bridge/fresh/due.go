package fresh

import "time"

// Due is for how long the next frame of a channel has been due: the age of its newest
// frame less the time between two frames that are to come, never below 0. A channel that
// is put every 200 ms is in order while its newest frame is 200 ms old; one that is cut
// off is overdue ever longer. Whatever is told of a budget that is over goes by it.
func Due(age, period time.Duration) time.Duration { return max(0, age-period) }

// Cadence learns how much time there is between two frames of a channel from the numbers
// and capture times of those that are seen: frames left out in between do not matter. The
// zero value has seen none.
type Cadence struct {
	seq         uint64
	at          time.Duration // capture time of frame seq; 0: not known
	known       bool          // whether what follows is
	mean, swing time.Duration // of the time between two frames; and how far they are from it
}

// As the round trip of RFC 6298 (section 2): an even channel has a period of its mean; an
// uneven one rests now and then for longer than that, and is not late for it.
const (
	cadenceMean  = 8
	cadenceSwing = 4
	cadenceMost  = 4  // times the swing
	cadenceSteps = 32 // frames that are left out count as one each, as far as they tell more
)

// Add records frame seq, captured at that time of any one clock; 0 means that the time
// is unknown.
func (c *Cadence) Add(seq uint64, captured time.Duration) {
	if seq <= c.seq {
		return
	}
	frames, gap := seq-c.seq, captured-c.at
	begins := c.at == 0 || captured == 0 || gap < 0
	c.seq, c.at = seq, captured
	if begins {
		return
	}
	each := gap / time.Duration(min(frames, 1<<32))
	if !c.known {
		c.mean, c.known = each, true
		return
	}
	for range min(frames, cadenceSteps) {
		c.swing += ((each - c.mean).Abs() - c.swing) / cadenceSwing
		c.mean += (each - c.mean) / cadenceMean
	}
}

// Period returns the time within which the next frame should come; false until two
// frames were seen.
func (c *Cadence) Period() (time.Duration, bool) {
	return c.mean + cadenceMost*c.swing, c.known
}

// Rest forgets the capture time of the newest frame, because the next frames are timed
// by another clock.
func (c *Cadence) Rest() { c.at = 0 }
