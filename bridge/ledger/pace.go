package ledger

import (
	"time"

	"achbridge/bridge/age"
)

// Pace is how much time there is between two frames that a mirror is to get: what the
// origin puts, less what max_rate leaves out. It belongs to one life of the channel.
type Pace struct {
	age.Cadence
	thin    float64  // frames put for each that max_rate lets through; 0: not known yet
	counted bool     // from so many frames as tell it well
	from    Accounts // the ledger when that count began
}

// How many frames tell how many of them max_rate leaves out: so many are put at least,
// and so many that it lets through make the next count begin.
const (
	thinnedBy   = 20
	thinnedOver = 32
)

// Hear takes the ledger as the origin has it: only there all rules on the rate are known.
// A count begins and ends anywhere between two frames that are let through: one of them
// is taken off, so that the time between two is rather too long than too short.
func (p *Pace) Hear(told Accounts) {
	put, limited := told.Settled()-p.from.Settled(), told.RateLimited-p.from.RateLimited
	if told.Settled() < p.from.Settled() || told.RateLimited < p.from.RateLimited {
		p.from = told // it began anew
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
		p.from, p.counted = told, true
	}
}

// Period is false before two frames came. limit is the time between two that max_rate
// leaves at least.
func (p *Pace) Period(limit time.Duration) (time.Duration, bool) {
	every, known := p.Cadence.Period()
	if p.thin > 1 {
		every = time.Duration(p.thin * float64(every))
	}
	return max(every, limit), known
}
