package ledger

import (
	"time"

	"achbridge/bridge/age"
)

// Pace estimates the time between two frames that a mirror should get: the origin's period, and the frames
// omitted by max_rate. It belongs to one epoch of the channel.
type Pace struct {
	age.Cadence
	thin    float64       // frames put for each one that max_rate lets pass; 0 if unknown
	counted bool          // a measurement over thinnedOver passed frames is complete
	from    FrameCounters // counters when the current measurement began
}

// A measurement of thin needs at least thinnedBy frames put. After thinnedOver passed frames, the next
// measurement begins.
const (
	thinnedBy   = 20
	thinnedOver = 32
)

// TakeReport updates the estimate from the origin's counters, since only the origin knows all rate limits. A
// measurement begins and ends anywhere between two passed frames. One of them is subtracted, so that the period
// is too long rather than too short.
func (p *Pace) TakeReport(reported FrameCounters) {
	put, limited := reported.Settled()-p.from.Settled(), reported.RateLimited-p.from.RateLimited
	if reported.Settled() < p.from.Settled() || reported.RateLimited < p.from.RateLimited {
		p.from = reported // the counters were reset
		return
	}
	if put < thinnedBy || limited >= put {
		return
	}
	passed := put - limited
	enough := passed >= thinnedOver
	switch {
	case limited == 0:
		p.thin = 1
	case enough || !p.counted:
		p.thin = float64(put) / float64(max(passed-1, 1))
	}
	if enough {
		p.from, p.counted = reported, true
	}
}

// Period returns the estimated time between two frames; false until two frames have arrived. limit is the least
// time between two frames that max_rate allows.
func (p *Pace) Period(limit time.Duration) (time.Duration, bool) {
	every, known := p.Cadence.Period()
	if p.thin > 1 {
		every = time.Duration(p.thin * float64(every))
	}
	return max(every, limit), known
}
