package bridge

import (
	"math"
	"time"

	"achbridge/bridge/fresh"
	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
)

// pace is how much time there is between two frames that a mirror is to get: what the
// origin puts, less what max_rate leaves out. It belongs to one life of the channel.
type pace struct {
	fresh.Cadence
	thin    float64         // frames put for each that max_rate lets through; 0: not known yet
	counted bool            // from so many frames as tell it well
	from    ledger.Accounts // the ledger when that count began
}

// How many frames tell how many of them max_rate leaves out: so many are put at least,
// and so many that it lets through make the next count begin.
const (
	thinnedBy   = 20
	thinnedOver = 32
)

// hear takes the ledger as the origin has it: only there all rules on the rate are known.
// A count begins and ends anywhere between two frames that are let through: one of them
// is taken off, so that the time between two is rather too long than too short.
func (p *pace) hear(told ledger.Accounts) {
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

// period is false before two frames came.
func (p *pace) period(qos rule.QoS) (time.Duration, bool) {
	every, known := p.Period()
	if p.thin > 1 {
		every = time.Duration(p.thin * float64(every))
	}
	return max(every, qos.MaxRate.Interval()), known
}

// overAt is the age at which a mirror goes over its budget: its next frame has then been
// due for that long. While the period is not known it never does. Needs m.mu.
func (m *mirror) overAt() time.Duration {
	period, known := m.pace.period(m.qos)
	if budget := m.qos.EffectiveBudget(); known && budget <= math.MaxInt64-period {
		return budget + period
	}
	return math.MaxInt64
}

// dueMs are the time between two frames and for how long the next has been due, in ms:
// null while it is not known. age is nil likewise.
func dueMs(age *float64, period time.Duration, known bool) (periodMs, due *float64) {
	if !known {
		return nil, nil
	}
	p := ms(period)
	if age != nil {
		d := DueMs(*age, p)
		due = &d
	}
	return &p, due
}

// DueMs is fresh.Due of times in ms.
func DueMs(age, period float64) float64 {
	return ms(fresh.Due(ofMs(age), ofMs(period)))
}

func ofMs(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
