package pacing

import (
	"time"

	"achbridge/bridge/delivery"
)

// A path that stands still at times carries much more than the rate at which it shows no
// queue. Frames of one packet leave at that rate: more of them would only wait for each
// other. Parts of large frames fill the path: what is in flight is bounded by what the path
// delivers on average in a round trip, and in one stall more, so that it is not idle when it
// moves again. That bound protects age, and it shrinks with the path alone: the average
// falls only while frames wait.

const (
	stallAhead = 5 * time.Millisecond  // parts for so long may wait on the path at least ...
	mostAhead  = 30 * time.Millisecond // ... and at most, however long a stall is ...
	aheadRound = 0.3                   // ... or so much of the round trip: the answer comes no sooner
	aheadMore  = 4                     // packets: the medium is taken for several at once
	fillPace   = 2                     // times the service: a burst may catch up what a stall held back
	fillTime   = 2 * time.Second       // for so long after a part the path counts as full
	leastTurn  = 10 * time.Millisecond // a medium takes what waits in turns that are so far apart
)

// Filling reports that parts fill a path that stands still at times.
func (p *Pacer) Filling(now time.Duration) bool {
	return p.stalls.known && p.parted != 0 && now-p.parted < fillTime
}

// PartWindow is Window for parts of large frames.
func (p *Pacer) PartWindow(rtt, delay time.Duration) int {
	if !p.stalls.known {
		return p.Window(rtt, delay)
	}
	way := rtt + delay
	ahead := max(min(max(p.stalls.typical(), stallAhead), mostAhead), time.Duration(aheadRound*float64(way)))
	return p.carries(way+ahead) + aheadMore*packetBytes
}

// UrgentWindow is PartWindow while frames of a higher priority leave, which would wait
// behind the parts.
func (p *Pacer) UrgentWindow(rtt, delay time.Duration) int {
	if !p.stalls.known {
		return p.Window(rtt, delay)
	}
	return p.carries(max(rtt+delay/2, leastTurn)) + packetBytes
}

// carries is how many bytes the path delivers on average in some time.
func (p *Pacer) carries(time time.Duration) int { return int(p.service.rate * time.Seconds()) }

// fill takes the average for the rate while parts fill the path.
func (p *Pacer) fill(now, rtt time.Duration) {
	p.growing, p.stood, p.slowed, p.others = 0, 0, 0, 0
	p.set(p.service.rate)
	p.path, p.full = p.rate, p.rate
	if now-p.round >= max(rtt/4, roundLeast) {
		p.best.note(now, p.rate)
		p.nextRound(now)
	}
}

// pace is the rate at which packets leave.
func (p *Pacer) pace(now time.Duration) float64 {
	if p.Filling(now) {
		return fillPace * p.rate
	}
	return p.rate
}

// idle is for how long no frame has waited for the pacer.
func (p *Pacer) idle(now time.Duration) time.Duration {
	if p.held != 0 {
		return 0
	}
	return now - p.freed
}

// A queue of others, as crowd looks for it.
const (
	nextToNothing = 6                      // part of what the path has carried
	crowdedTime   = 500 * time.Millisecond // that it stays
	crowdedLeast  = 5 * time.Millisecond   // its length
	crowdedMost   = 60 * time.Millisecond  // one packet takes longer on a path that has become so slow
)

// crowd reports that a queue has stayed for a while though next to nothing of what the path has
// carried is ours by now. Then it is the way that has become longer, or others fill the path:
// making way for them once more would leave us nothing. They hide how the path moves, so it is
// taken for one that stands still.
func (p *Pacer) crowd(now time.Duration) bool {
	switch {
	case p.rate*nextToNothing > p.peak.rate():
		p.crowded = 0
	case p.queue > crowdedLeast && p.queue < crowdedMost:
		p.crowded += now - p.round
	default:
		p.crowded = max(0, p.crowded-(now-p.round))
	}
	if p.crowded < crowdedTime {
		return false
	}
	p.stalls.presume(now)
	return true
}

const (
	gapRound = 20                     // part of a round trip: closer whole frames make a mirror no younger, and wait in line when the path stalls
	gapLate  = 3                      // part of the time for which feedback is overdue
	gapMost  = 100 * time.Millisecond // but no more than that, or gapLate of what the last packet took
)

// nextWhole returns when whole frames may leave next. Over a path that stands still at times
// they are a part of a round trip apart, and a part of the time for which feedback is overdue
// beyond half a round trip: when the path moves again, the newest of them is older than it need
// be only by that part. Each gap is at least half of the one before, lest a fade that lets a
// packet through fills up again.
func (p *Pacer) nextWhole(now time.Duration) time.Duration {
	_, least := p.packets.RTT()
	way := least + max(delivery.ReportDelay(p.transport.RTT()), p.packets.Reported())
	at := p.wholeAt + max(p.gap/2, way/gapRound)
	if overdue := now - p.packets.Late(now) + way/2; at > overdue {
		took := p.heard - p.arrived.newest().Sent
		at = min(at+(at-overdue)/(gapLate-1), p.wholeAt+max(gapMost, took/gapLate))
	}
	return at
}
