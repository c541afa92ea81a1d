package pacing

import (
	"time"

	"achbridge/bridge/delivery"
)

// A path that stalls at times carries much more than the rate at which it shows no queue.
// Whole frames are sent at that rate, since more of them would only wait for each other. Parts
// of large frames fill the path. Their bytes in flight are limited to the average delivery
// during a round trip and one stall, so that the path is not idle after a stall. That limit
// bounds the age of frames. It shrinks only with the path, since the average falls only while
// frames wait.

const (
	stallAhead = 5 * time.Millisecond  // minimum time for which parts may queue on the path ...
	mostAhead  = 30 * time.Millisecond // ... and the most, however long a stall is ...
	aheadRound = 0.3                   // ... but at least this share of the round trip, since feedback is not faster
	aheadMore  = 4                     // additional packets: the medium transmits several at once
	fillPace   = 2                     // multiple of the average rate: a burst may catch up after a stall
)

// Filling reports whether parts of large frames fill a path that stalls at times.
func (p *Pacer) Filling(now time.Duration) bool {
	return p.stalls.isKnown && p.partSentAt != 0 && now-p.partSentAt < stallSlot
}

// PartWindow returns the Window for parts of large frames.
func (p *Pacer) PartWindow(rtt, delay time.Duration) int {
	if !p.stalls.isKnown {
		return p.Window(rtt, delay)
	}
	way := rtt + delay
	queueTime := max(min(max(p.stalls.typical(), stallAhead), mostAhead), time.Duration(aheadRound*float64(way)))
	return p.carries(way+queueTime) + aheadMore*packetBytes
}

// UrgentWindow returns the PartWindow while frames of a higher priority are sent, which would
// queue behind the parts.
func (p *Pacer) UrgentWindow(rtt, delay time.Duration) int {
	if !p.stalls.isKnown {
		return p.Window(rtt, delay)
	}
	return p.carries(max(rtt+delay/2, turn)) + packetBytes
}

// carries returns how many bytes the path delivers on average in the given time.
func (p *Pacer) carries(time time.Duration) int { return int(p.service.rate * time.Seconds()) }

// fill sets the rate to the average delivery rate while parts fill the path.
func (p *Pacer) fill(now, rtt time.Duration) {
	p.growing, p.queueBefore, p.slowedBy, p.otherRounds = 0, 0, 0, 0
	p.set(p.service.rate)
	p.path, p.full = p.rate, p.rate
	if now-p.round >= max(rtt/4, roundLeast) {
		p.best.note(now, p.rate)
		p.nextRound(now)
	}
}

// pace returns the rate at which packets are sent.
func (p *Pacer) pace(now time.Duration) float64 {
	if p.Filling(now) {
		return fillPace * p.rate
	}
	return p.rate
}

// idle returns the time since a frame last waited for the pacer, or 0 while one waits.
func (p *Pacer) idle(now time.Duration) time.Duration {
	if p.waitingSince != 0 {
		return 0
	}
	return now - p.freedAt
}

// Criteria for a queue of cross traffic.
const (
	nextToNothing    = 6                      // our rate is below this fraction of the peak rate
	crossTrafficTime = 500 * time.Millisecond // minimum queue persistence
	crossTrafficMost = 60 * time.Millisecond  // maximum queueing delay: on a path that has become very slow one packet takes longer
)

// isBesideCrossTraffic reports whether a queue has persisted although we now send only a small fraction of the
// peak rate. Then the path has become longer, or cross traffic fills it. Stepping down further
// would leave us nothing. Cross traffic hides stalls, so the function presumes a path that stalls.
func (p *Pacer) isBesideCrossTraffic(now time.Duration) bool {
	switch {
	case p.rate*nextToNothing > p.peak.rate():
		p.crossTrafficFor = 0
	case p.queue > stallAhead && p.queue < crossTrafficMost:
		p.crossTrafficFor += now - p.round
	default:
		p.crossTrafficFor = max(0, p.crossTrafficFor-(now-p.round))
	}
	if p.crossTrafficFor < crossTrafficTime {
		return false
	}
	p.stalls.presume()
	return true
}

const (
	gapRound = 20                     // minimum gap, as a fraction of the round trip: closer frames make a mirror no fresher, and queue in a stall
	gapLate  = 3                      // gap, as a fraction of the time for which feedback is overdue
	gapMost  = 100 * time.Millisecond // limit of the gap, or a gapLate-th of the last packet's delay if that is longer
)

// nextWhole returns when whole frames may be sent next on a path that stalls at times. The gap
// between them is a fraction of the round trip. It grows with the time for which feedback is
// overdue beyond half a round trip. So after a stall, the newest frame on the path is older
// than necessary only by that fraction. Each gap is at least half of the previous one.
// Otherwise the queue would fill again after a single packet that passes during a fade.
func (p *Pacer) nextWhole(now time.Duration) time.Duration {
	_, least := p.packets.RTT()
	way := least + max(delivery.ReportDelay(p.transport.RTT()), p.packets.AckDelay())
	at := p.wholeAt + max(p.gap/2, way/gapRound)
	if overdue := now - p.packets.Late(now) + way/2; at > overdue {
		took := p.feedbackAt - p.arrived.newest().Sent
		at = min(at+(at-overdue)/(gapLate-1), p.wholeAt+max(gapMost, took/gapLate))
	}
	return at
}
