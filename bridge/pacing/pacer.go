package pacing

import (
	"cmp"
	"math"
	"time"

	"achbridge/bridge/delivery"
)

// Pacer decides when the next packet of a link may leave, so that what is on
// its way never becomes a queue: it sends at the rate at which the path
// delivers, learnt from the arrival times that the peer reports, and bounds what
// is in flight by that rate times the round trip. Delay is its signal of
// congestion, isolated loss is not. Not safe for concurrent use.
//
// The parts: transit tells how long the bottleneck's queue is, arrivals at how
// many bytes a second it delivers while that queue is not empty. A queue longer
// than about a packet: fall below the delivery rate until it is gone, and stay
// just below. A queue that stays though less left than the path carries: the way has
// become longer, which is not our business. No queue although we were held back: probe,
// and grow fast as long as no queue answers. Held back by nothing: learn nothing.
//
// Several pacers that share a bottleneck come to equal rates as those of TCP do
// (Chiu and Jain, 1989): all fall in proportion, but the first step of a probe
// is as many packets whatever the rate, so a smaller one gains more by it, and
// it probes more often.
type Pacer struct {
	packets   *delivery.Flight
	transport Transport
	limits    bool   // frames wait for the pacer, not for the transport
	answers   uint64 // packets that the transport had heard when a packet left last

	rate    float64       // bytes a second
	credit  float64       // bytes that may leave now
	filled  time.Duration // when credit was last topped up
	path    float64       // delivery rate while there was a queue: what the path carries; 0: never seen
	full    float64       // the same as it was measured last, 0 after a loss that left us guessing
	growing float64       // the last step of a probe, as a power of e; 0: no probe
	quiet   time.Duration // no probing before
	tested  time.Duration // for how long a probe's last step has loaded the path
	calm    time.Duration // when the effect of the last step down must be here
	fell    time.Duration // when that was
	stood   time.Duration // the queue for which we stepped down, when that began to show; 0: there is none
	carried float64       // delivery rate when we first did
	gone    time.Duration // what should be gone of it by the last step
	slowed  time.Duration // what slower has taken off it
	sure    bool          // path was measured then, not guessed
	others  int           // rounds on end with a queue that is not of our making
	peak    best          // delivery rate that the path has shown, whatever we made of it
	crowded time.Duration // for how long a queue stayed though we sent next to nothing
	held    time.Duration // since when frames have been waiting for us; 0: they are not
	freed   time.Duration // when they last ceased to
	loaded  time.Duration // since when we have sent all that we may
	limited time.Duration // how long frames waited in this round, before held
	round   time.Duration // when this round began
	queue   time.Duration // the shortest of this round: what stands, not what passes
	trip    time.Duration // the same of both ways together
	seen    int           // packets that queue is the shortest of
	best    best          // delivery rate that the path has shown
	transit transit       // of the ways there, by both clocks
	trips   transit       // of the ways there and back, by ours
	arrived arrivals
	stalls  stalls
	jitter  jitter // what packets take longer by chance
	service service
	parted  time.Duration // when a part of a large frame left last
	wholeAt time.Duration // when whole frames left last
	gap     time.Duration // how long they had to wait for those before
	left    time.Duration // when anything did
	heard   time.Duration // when packets were reported last
}

const (
	packetBytes  = 1280 // one full packet with its headers
	headerBytes  = delivery.HeaderBytes
	initialRate  = 10 * packetBytes / 0.020
	leastRate    = 2 * packetBytes // bytes a second: a packet every half second
	mostRate     = 1.25e9
	firstWindow  = 10 * packetBytes // RFC 9002, 7.2
	burstPackets = 2
	burstTime    = 1500 * time.Microsecond // timers of a real host fire late by about a millisecond
	mostBurst    = 32 * packetBytes        // quic-go queues 128 packets for its reader, and drops the newest
	roundLeast   = 4 * time.Millisecond    // a round is a quarter of the round trip, or this
	below        = 0.98                    // of the delivery rate: what we send at when we know it
	firstGrowth  = 0.9                     // power of e per round trip, before any queue was seen
	probePackets = 0.37                    // the first step of a probe, in packets more in the pipe; each is twice the one before ...
	probeGrowth  = 0.35                    // the most that the first may be, as a power of e
	mostGrowth   = 0.7                     // ... and that any may be
	mostUnproven = 2                       // times the best delivery rate is the most that we grow to
	probeRounds  = 10                      // round trips between two probes ...
	probeLeast   = 400 * time.Millisecond  // ... and the time
	fullPipe     = 2.3                     // packets: with fewer in the pipe we probe more often ...
	oftenest     = 0.3                     // ... down to this part of the time
	probeGain    = 1.03                    // a probe that won us so much from others ...
	afterGain    = 0.5                     // ... is followed by the next in this part of the time
	probeLook    = 4                       // packets of a probe's step that must have queued: one may have met another's
	queuePackets = 0.5                     // the queue that is tolerated, in packets at the rate ...
	queueLeast   = time.Millisecond        // ... and in time: real hosts take breaks of that length
	othersRounds = 20                      // after so many such rounds what looks like a queue is the way
	longQueue    = 4                       // times the tolerated one: the step down for it is given time
	rateSpan     = 10 * time.Millisecond   // over which a delivery rate is taken at least
	longSpan     = 10                      // packets over which it is taken while it changes little
	stoodStill   = 2                       // times the delivery rate is that without its longest gap, if there was one
	rateFell     = 0.7                     // below this part of the former one the path has changed
)

// Delivered processes the packets of one report, in order of arrival; rtt is the least
// round trip. It returns by how much the path has become longer, once it has found that
// out.
func (p *Pacer) Delivered(now time.Duration, list []delivery.Delivery, rtt time.Duration) (longer time.Duration) {
	p.start()
	for _, d := range list {
		p.arrived.add(d)
		queue := p.transit.queue(now, d.Arrived-d.Sent, d.Size)
		trip := queue
		if d.RTT > 0 {
			trip = p.trips.queue(now, d.RTT, d.Size)
			queue = min(queue, trip)
		}
		p.stalls.note(now, d, queue, p.fastest(), p.jitter.noise)
		p.jitter.note(d, max(p.rate, p.path))
		p.service.note(d, p.idle(now), rtt)
		if p.seen == 0 || queue < p.queue {
			p.queue = queue
		}
		if p.seen == 0 || trip < p.trip {
			p.trip = trip
		}
		p.seen++
	}
	if len(list) > 0 {
		p.heard = now
	}
	rtt = max(rtt, time.Millisecond)
	if p.Filling(now) {
		p.fill(now, rtt)
		return 0
	}
	tolerated, visible := p.thresholds()
	if p.seen == 0 || now-p.round < max(rtt/4, roundLeast) || !p.clear(tolerated, visible) {
		return 0
	}
	if delivered, _, took := p.arrived.rate(max(rtt/2, rateSpan), 0); took > 0 {
		p.best.note(now, delivered)
		p.peak.note(now, delivered)
	}
	if p.crowd(now) {
		longer = p.lengthen(now, rtt)
		p.nextRound(now)
		return longer
	}
	if p.growing > 0 && p.seen < probeLook && p.queue < tolerated {
		return 0
	}
	switch {
	case p.queue > visible && p.stands(tolerated):
		longer = p.lengthen(now, rtt)
	case p.queue > tolerated && p.drains(tolerated):
	case p.queue > tolerated || p.growing > 0 && p.queue > visible:
		longer = p.shrink(now, rtt)
	default:
		p.others = 0
		p.grow(now, visible, rtt)
	}
	switch {
	case p.queue < visible:
		p.stood = 0
	case p.stood != 0 && p.arrived.newest().Sent <= p.fell:
		p.stood = p.queue // the step down does not show yet
	}
	p.nextRound(now)
	return longer
}

// fastest is how long a full packet takes at the best rate that is known.
func (p *Pacer) fastest() time.Duration {
	return time.Duration(packetBytes / max(p.rate, p.path, p.best.rate()) * float64(time.Second))
}

// emptied is what must be gone of the queue that we have stepped down for: as much as
// the path carried more than left since.
func (p *Pacer) emptied() time.Duration {
	return p.gone + time.Duration((1-p.rate/p.carried)*float64(p.arrived.newest().Sent-p.fell))
}

// drains reports that it is too early to see whether a step down for a long queue does
// what it should.
func (p *Pacer) drains(tolerated time.Duration) bool {
	return p.steppedDown() && p.stood >= longQueue*tolerated && p.queue < p.stood+tolerated && p.emptied() < p.stood
}

// stands reports that what looks like a queue is none that we could drain: half of it
// should be gone, and it is as long as it was. The way has become longer, or others fill it.
func (p *Pacer) stands(tolerated time.Duration) bool {
	if !p.steppedDown() {
		return false
	}
	emptied := p.emptied()
	return emptied >= max(p.stood/2, 2*tolerated) && (p.queue-p.stood).Abs() < emptied/4
}

// steppedDown reports that there is a queue for which we have stepped down from a rate
// that was measured.
func (p *Pacer) steppedDown() bool { return p.stood != 0 && p.sure && p.growing == 0 }

// lengthen takes what stands for the way itself, and goes back to the rate at which the
// path delivered before we stepped down for it. How long packets take on it is learnt
// anew, since what slower added to that depends on their size: a millisecond too little
// for some would look like a queue for ever.
func (p *Pacer) lengthen(now, rtt time.Duration) (longer time.Duration) {
	longer = max(p.queue, p.trip) + p.slowed
	p.transit, p.trips = transit{}, transit{}
	p.sure, p.stood, p.slowed, p.others, p.crowded = false, 0, 0, 0, 0
	p.quiet = now + p.pause(rtt+longer, p.path)
	p.path, p.full = max(p.path, p.carried), max(p.full, p.carried)
	p.set(max(p.rate, below*p.path))
	return longer
}

// shrink falls below the rate at which the path delivers now, so that the queue
// drains within about a round trip. Delay that is not of our making (what left
// was less than we allow, and arrives as fast as it left) is not our business; if it
// stays, it is the way's. It returns what Delivered does.
func (p *Pacer) shrink(now, rtt time.Duration) (longer time.Duration) {
	delivered, sent, took, doubtful := p.delivery(rtt)
	idle := sent < 0.8*p.rate && p.waited(now) < (now-p.round)/2 // less left than we allow
	if took == 0 {
		return 0
	}
	if idle && delivered > 0.9*sent {
		if p.others++; p.others < othersRounds {
			return 0
		}
		return p.lengthen(now, rtt)
	}
	p.others = 0
	guessed := idle || took < rateSpan
	if guessed {
		delivered = max(delivered, p.rate/2) // too short a look, or too little load, to believe in worse
	}
	seen := now >= p.calm && p.arrived.newest().Sent > p.fell
	if !seen && p.growing == 0 && (delivered > rateFell*p.path || delivered > 0.9*sent) {
		return 0 // what the last step down does is yet to be seen
	}
	same := p.stood != 0 && (p.queue-p.stood).Abs() < max(p.tolerable(), p.emptied()/4)
	if p.stood == 0 {
		p.slowed = 0
	}
	if former := cmp.Or(p.path, p.best.rate()); delivered < rateFell*former {
		p.slowed += p.transit.slower(1/delivered-1/former, p.arrived.newest().Size)
		p.trips.slower(1/delivered-1/former, 0)
	}
	switch {
	case doubtful:
		p.quiet = now + 2*p.echo(rtt)
	case p.growing > 0 || p.noise() == 0 || delivered < surelyLess*p.path:
		p.quiet = now + p.pause(rtt, delivered)
	}
	if same {
		p.gone = p.emptied()
	} else {
		p.gone, p.carried, p.stood = 0, delivered, p.queue
	}
	p.path, p.full, p.growing, p.calm = delivered, delivered, 0, now+p.echo(rtt)
	p.fell, p.sure = now, !guessed
	p.best.fall(now, max(delivered, p.best.rate()/2))
	p.set(below * delivered * (1 - min(0.5, float64(p.queue)/float64(rtt+p.queue))))
	return 0
}

// delivery is the rate at which the path delivers while we load it, the rate at
// which the same packets left, and the time over which both are taken. What left
// before frames had to wait for us did not load the path.
// doubtful says that a probe may have ended by chance.
func (p *Pacer) delivery(rtt time.Duration) (delivered, sent float64, took time.Duration, doubtful bool) {
	delivered, sent, took = p.arrived.rate(max(rtt/2, rateSpan), p.loaded)
	// So short a look depends on how our packets mix with those of others.
	if long, _, _ := p.arrived.rate(max(2*rtt, p.wire(longSpan*packetBytes)), p.loaded); delivered > rateFell*long {
		delivered = long
	}
	// And it depends on whether the path stood still for a moment, as a radio does.
	if steady := p.arrived.steady(max(rtt/2, rateSpan), p.loaded); steady > stoodStill*delivered {
		delivered = max(delivered, min(steady, cmp.Or(p.path, p.best.rate())))
	}
	if p.noise() > 0 && !p.stalls.known {
		delivered, doubtful = p.believe(delivered, sent, max(rtt/2, rateSpan), took)
	}
	return delivered, sent, took, doubtful
}

// pause is how long not to probe, now that the path is known to deliver so much.
func (p *Pacer) pause(rtt time.Duration, delivered float64) time.Duration {
	part := max(oftenest, min(1, p.pipe(rtt)/fullPipe))
	if p.growing > 0 && delivered > probeGain*p.path {
		part *= afterGain
	}
	return time.Duration(part * float64(max(probeRounds*rtt, probeLeast)))
}

// pipe is how many packets are under way at the rate, where no queue is.
func (p *Pacer) pipe(rtt time.Duration) float64 {
	return p.rate * (rtt + roundLeast).Seconds() / packetBytes
}

// grow looks once in a while whether more would pass: step by step, each
// larger than the one before, as long as no queue answers.
func (p *Pacer) grow(now, visible, rtt time.Duration) {
	elapsed := now - p.round
	switch {
	case p.rate < below*p.path:
		if p.queue < visible {
			p.set(below * p.path) // the queue is gone
		}
	case p.waited(now) < elapsed/2:
	case p.rate >= mostUnproven*p.best.rate():
		// It is not the rate that we are held back by.
	case p.path == 0:
		p.raise(firstGrowth, elapsed, rtt)
	case p.growing > 0 && p.tested < p.echo(rtt)+time.Duration(float64(p.visible())/p.growing):
		p.tested += elapsed // the answer to the last step is on its way
	case p.growing > 0 || now >= p.quiet:
		p.growing = min(max(min(probeGrowth, probePackets/p.pipe(rtt)), 2*p.growing), mostGrowth)
		p.set(p.rate * math.Exp(p.growing))
		p.tested = 0
	}
}

// echo is how long a change of the rate takes to show in the peer's reports.
func (p *Pacer) echo(rtt time.Duration) time.Duration {
	return rtt + p.wire(2*packetBytes) + roundLeast
}

// raise lets the rate grow by e to the power in a round trip.
func (p *Pacer) raise(power float64, elapsed, rtt time.Duration) {
	p.set(p.rate * math.Exp(power*min(1, float64(elapsed)/float64(rtt))))
}

// Lost halves the rate after a burst of lost packets, or after the path fell silent.
func (p *Pacer) Lost(now time.Duration) {
	p.growing, p.path, p.full, p.sure = 0, p.rate/2, 0, false
	p.quiet = now
	p.set(p.rate / 2)
	p.nextRound(now)
}

// Resumed says that a silent path is heard again. The few packets that arrived during
// the silence say nothing about the rate, and the frames of that time did not wait for
// the pacer.
func (p *Pacer) Resumed(now time.Duration) {
	p.arrived, p.growing, p.loaded = arrivals{}, 0, now
	if p.held != 0 {
		p.held = now
	}
	p.nextRound(now)
}
