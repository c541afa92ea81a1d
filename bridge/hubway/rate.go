package hubway

import (
	"math"
	"slices"
	"time"

	"achbridge/wire"
)

// A channel is published no faster than its fastest reader receives it, since more frames would only fill this host's
// uplink. Each reader reports every second what it received. It also reports whether its fetches waited at the hub,
// which means that it can receive more. The best of several reports counts, because jitter or a large frame can make one
// second slow.
const (
	unbounded    = time.Second // time after a reader subscribes in which its rate has no limit
	boundGrows   = 1.5         // factor per second in which a fetch waited
	boundFactor  = 1.25        // factor over the received rate
	boundReports = 3           // number of recent reports of which the best one counts
	leastPerSec  = 0.5         // minimum frames per second, however few are received
)

// bound is the estimated frame rate that one reader can receive.
type bound struct {
	perSec   float64 // frames a second; +Inf means unknown
	since    time.Duration
	received uint64 // total at the last report
	at       time.Duration
	rates    [boundReports]float64 // received frames per second in the last reports
	reports  int
}

func newBound(now time.Duration) bound { return bound{perSec: math.Inf(1), since: now, at: now} }

// add updates the estimate with a report of the reader.
func (b *bound) add(m wire.Pulled, now time.Duration) {
	got, took := float64(m.Received-min(b.received, m.Received)), (now - b.at).Seconds()
	b.received, b.at = m.Received, now
	if took > 0 {
		b.rates[b.reports%boundReports] = got / took
		b.reports++
	}
	switch {
	case now < b.since+unbounded || took <= 0:
	case m.Waiting:
		b.perSec *= boundGrows
	default:
		b.perSec = max(boundFactor*slices.Max(b.rates[:]), leastPerSec)
	}
}

// interval returns the time between two frames at the rate of the fastest reader. p.mu must be held.
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

// Pulled handles the peer's report of received frames. The link's lock is not needed.
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
