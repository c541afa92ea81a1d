package pacing

import "time"

// A path that stands still at times carries much more than the rate at which it shows no
// queue. Frames of one packet leave at that rate: more of them would only wait for each
// other. Parts of large frames fill the path: what is in flight is bounded by what the path
// delivers on average in a round trip, and in one stall more, so that it is not idle when it
// moves again. That bound protects age, and it shrinks with the path alone: the average
// falls only while frames wait.

const (
	stallAhead   = 5 * time.Millisecond  // parts for so long may wait on the path at least ...
	mostAhead    = 30 * time.Millisecond // ... and at most, however long a stall is ...
	aheadRound   = 0.6                   // ... or so much of the round trip: the answer comes no sooner
	aheadMore    = 4                     // packets: the medium is taken for several at once
	fillPace     = 4                     // times the average: a burst may catch up what a stall held back
	fillTime     = 2 * time.Second       // for so long after a part the path counts as full
	urgentAhead  = 5 * time.Millisecond  // instead of stallAhead where frames of a higher priority leave
	wordGap      = 15 * time.Millisecond // word that is no further apart keeps coming
	wordPatience = time.Second
	spaceLeast   = 5 * time.Millisecond // between two packets while it does ...
	spaceGrowth  = 1.25                 // ... each so much later after what arrived last than the one before ...
	spaceMost    = 100 * time.Millisecond
	spacePart    = 4 // ... but no more than spaceMost, or this part of what the last packet took, apart
)

// WordMargin is how late word may be before the path counts as standing still.
const WordMargin = 5 * time.Millisecond

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
	return p.carries(rtt+delay+urgentAhead) + aheadMore*packetBytes
}

// carries is how many bytes the path delivers on average in some time.
func (p *Pacer) carries(time time.Duration) int { return int(p.mean.rate * time.Seconds()) }

// fill takes the average for the rate while parts fill the path.
func (p *Pacer) fill(now, rtt time.Duration) {
	p.growing, p.stood, p.slowed, p.others = 0, 0, 0, 0
	p.set(p.mean.rate)
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

// Spaced returns when another packet may leave while word of those in flight is overdue.
// The path stands still, and they wait on it; when it moves, the newest of them is older
// than it need be only by a part of the time that the path stood still. If a fade lets
// through less than that, the packets are further apart by what the last one took.
func (p *Pacer) Spaced() time.Duration {
	from := p.arrived.newest().Sent
	at := max(p.left+spaceLeast, p.heard+spaceLeast, from+time.Duration(spaceGrowth*float64(p.left-from)))
	return min(at, p.left+max(spaceMost, (p.heard-from)/spacePart))
}

// Overdue reports that word is so late that the path must be standing still. On one that
// was never seen to, late word is that of a queue, of a longer way or of a loss, which
// Delivered and Flight judge; and so is word that keeps coming late on any path, once that
// has lasted for a while. rtt is the smoothed round trip: a full window is answered in
// bursts so far apart.
func (p *Pacer) Overdue(now, late, rtt time.Duration) bool {
	if late <= WordMargin {
		p.punctual = now
		return false
	}
	return p.stalls.known && (now-p.heard > max(wordGap, rtt) || now-p.punctual < wordPatience)
}

// A queue of others, as crowd looks for it.
const (
	nextToNothing = 6                      // part of what the path has carried
	crowdedTime   = 500 * time.Millisecond // that it stays
	crowdedLeast  = 5 * time.Millisecond   // its length
	crowdedMost   = 60 * time.Millisecond  // one packet takes longer on a path that has become so slow
)

// crowd takes note of a queue that stays though next to nothing of what the path has carried
// is ours by now. It is that of others, who hide how the path moves: what they fill we fill
// as well, since making way for them once more leaves us nothing. But what is never longer or
// shorter is no queue of anybody: then crowd reports that the way has become longer.
func (p *Pacer) crowd(now, visible time.Duration) (way bool) {
	switch {
	case p.rate*nextToNothing > p.peak.rate():
		p.crowded = 0
	case p.queue > crowdedLeast && p.queue < crowdedMost:
		p.crowded += now - p.round
	default:
		p.crowded = max(0, p.crowded-(now-p.round))
	}
	stands := p.queue + p.slowed
	if p.crowded < crowdedTime/2 { // the rate still falls, and the queue with it
		p.lowest, p.highest = 0, 0
		return false
	}
	if p.lowest == 0 || stands < p.lowest {
		p.lowest = stands
	}
	p.highest = max(p.highest, stands)
	if p.crowded < crowdedTime {
		return false
	}
	p.crowded = 0
	if p.highest-p.lowest < min(visible, queueLeast/2+p.noise()) {
		return true
	}
	p.stalls.presume(now)
	return false
}
