package age

import "time"

// Due returns how long the next frame of a channel has been due: the age of its newest frame minus its period,
// at least 0. A channel with a period of 200 ms is in order while its newest frame is at most 200 ms old. All
// comparisons of a mirror with its budget use Due.
func Due(age, period time.Duration) time.Duration { return max(0, age-period) }

// Cadence estimates the time between two frames of a channel from the numbers and capture times of the frames
// that it receives. Frames may be missing between them. The zero value has received no frames.
type Cadence struct {
	seq         uint64
	at          time.Duration // capture time of frame seq; 0 if unknown
	isKnown     bool          // whether mean and swing are known
	mean, swing time.Duration // mean time between two frames, and mean deviation from it
}

// The period is estimated like the retransmission timeout of RFC 6298, section 2: the mean plus cadenceMost
// times the swing. Thus an irregular channel is not late when a gap is occasionally longer than the mean.
const (
	cadenceMean  = 8
	cadenceSwing = 4
	cadenceMost  = 4  // times the swing
	cadenceSteps = 32 // a gap counts once for each frame in it, but at most this often
)

// Add records frame seq and its capture time, 0 if unknown. All capture times must be of the same clock, see
// Rest.
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
	if !c.isKnown {
		c.mean, c.isKnown = each, true
		return
	}
	for range min(frames, cadenceSteps) {
		c.swing += ((each - c.mean).Abs() - c.swing) / cadenceSwing
		c.mean += (each - c.mean) / cadenceMean
	}
}

// Period returns the time within which the next frame should arrive; false until two frames were recorded.
func (c *Cadence) Period() (time.Duration, bool) {
	return c.mean + cadenceMost*c.swing, c.isKnown
}

// Rest forgets the capture time of the newest frame, because the next frames are timed by another clock.
func (c *Cadence) Rest() { c.at = 0 }
