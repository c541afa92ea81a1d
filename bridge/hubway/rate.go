package hubway

import (
	"math"
	"slices"
	"time"

	"achbridge/wire"
)

// A channel is put at the hub no faster than its fastest reader takes it, since what nobody takes
// would only fill this host's uplink. Each reader tells once a second what it received, and
// whether its pulls waited at the hub: then it can take more. A second in which little came, for
// a jolt on the way or a large frame that came first, does not count alone.
const (
	unbounded   = time.Second // for so long after a reader has subscribed
	boundGrows  = 1.5         // each second in which a pull waited
	boundSpare  = 1.25        // over what was received
	boundLooks  = 3           // of the last reports the best one counts
	leastPerSec = 0.5         // frames a second that are put however little arrives
)

// bound is how many frames a second one reader can take.
type bound struct {
	perSec   float64 // +Inf: not known
	since    time.Duration
	received uint64 // by the last report
	at       time.Duration
	rates    [boundLooks]float64 // frames a second that were received
	reports  int
}

func newBound(now time.Duration) bound { return bound{perSec: math.Inf(1), since: now, at: now} }

// add takes a report.
func (b *bound) add(m wire.Pulled, now time.Duration) {
	got, took := float64(m.Received-min(b.received, m.Received)), (now - b.at).Seconds()
	b.received, b.at = m.Received, now
	if took > 0 {
		b.rates[b.reports%boundLooks] = got / took
		b.reports++
	}
	switch {
	case now < b.since+unbounded || took <= 0:
	case m.Waiting:
		b.perSec *= boundGrows
	default:
		b.perSec = max(boundSpare*slices.Max(b.rates[:]), leastPerSec)
	}
}

// interval is the time between two frames by what the fastest reader can take. p.mu must be held.
func (p *publisher) interval() time.Duration {
	most := 0.0
	for _, r := range p.subscriptions {
		most = max(most, r.bound.perSec)
	}
	if most == 0 || math.IsInf(most, 1) || most > 1e6 {
		return 0
	}
	return time.Duration(float64(time.Second) / most)
}

// Pulled takes a report of what the peer has received. It does not need the link's lock.
func (s *Subscription) Pulled(m wire.Pulled) {
	p, now := s.publisher, s.publisher.cfg.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.interval()
	s.bound.add(m, now)
	if every := p.interval(); every < before {
		p.nextPut.freeAt = min(p.nextPut.freeAt, now+every)
		p.wakeUp()
	}
}
