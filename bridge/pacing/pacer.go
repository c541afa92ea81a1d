package pacing

import (
	"cmp"
	"math"
	"time"

	"achbridge/bridge/delivery"
)

// Pacer decides when the next packet of a link may be sent, so that the packets in flight
// do not form a queue. It sends at the delivery rate of the path, which it measures from the
// arrival times that the peer reports. It limits the bytes in flight to that rate times the
// round trip. Delay is its congestion signal; isolated loss is not. Not safe for concurrent
// use.
//
// transit measures the queueing delay at the bottleneck, and arrivals the delivery rate
// while that queue is not empty. The Pacer then acts as follows:
//
//   - If the queue is longer than about a packet, the rate falls below the delivery rate
//     until the queue is gone, and then stays just below.
//   - If the queue stays although less was sent than the path carries, the path has become
//     longer or others fill it. The longer delay then no longer counts as a queue.
//   - If there is no queue although the pacer limited sending, the rate grows in probes,
//     faster and faster until queueing delay rises.
//   - If the pacer did not limit sending, it learns nothing.
//
// Several pacers that share a bottleneck converge to equal rates as TCP does (Chiu and Jain,
// 1989). All reduce their rates in proportion. But the first step of a probe is the same
// number of packets at every rate, so slower pacers gain more, and they probe more often.
type Pacer struct {
	packets        *delivery.SentPackets
	transport      Transport
	limits         bool   // the pacer, not the transport, limits sending
	receivedBefore uint64 // packets that the transport had received when the last packet was sent

	rate            float64       // sending rate, bytes a second
	credit          float64       // bytes that may be sent now; negative while the next packet must wait
	filled          time.Duration // when credit was last topped up
	path            float64       // capacity of the path: its delivery rate while there was a queue; 0 if never measured
	full            float64       // last measured capacity, 0 if never measured or only guessed after a burst of loss
	growing         float64       // the last step of a probe, as a power of e; 0 without a probe
	nextProbeAt     time.Duration // when the next probe may begin
	testedFor       time.Duration // time for which the last step of a probe has loaded the path
	visibleAt       time.Duration // when the effect of the last step down must be visible
	steppedDownAt   time.Duration // time of the last step down
	queueBefore     time.Duration // queueing delay when the first step down for it took effect; 0 without such a queue
	carried         float64       // delivery rate at the first step down for the queue
	drainedBefore   time.Duration // part of queueBefore that should have drained by the last step down
	slowedBy        time.Duration // time by which slower has raised the base delay since the queue appeared
	isMeasured      bool          // path was measured at the last step down, not guessed
	otherRounds     int           // consecutive rounds with a queue that our packets did not cause
	peak            best          // highest delivery rate measured; unlike best, a step down does not lower it
	crossTrafficFor time.Duration // time for which a queue stayed although we sent almost nothing
	waitingSince    time.Duration // since when frames have been waiting for the pacer; 0 if none waits
	freedAt         time.Duration // when frames last stopped waiting for the pacer
	loaded          time.Duration // since when we have sent all that the pacer permits
	limited         time.Duration // time for which frames waited in this round, before held
	round           time.Duration // when this round began
	queue           time.Duration // smallest queueing delay in this round: a standing queue, not a burst
	trip            time.Duration // smallest queueing delay of the round trip in this round
	roundPackets    int           // number of packets in queue and trip
	best            best          // highest delivery rate measured
	oneWayDelay     delayFilter   // delays from here to the peer, by both clocks
	roundTrip       delayFilter   // round-trip delays, by our clock
	arrived         arrivals
	stalls          stalls
	jitter          jitter // random extra delay of packets
	service         service
	partSentAt      time.Duration // when a part of a large frame was last sent
	wholeAt         time.Duration // when whole frames were last sent
	gap             time.Duration // minimum time that nextWhole left between the last two packets of whole frames
	sentAt          time.Duration // when the last packet was sent
	feedbackAt      time.Duration // when the last report on packets arrived
}

const (
	packetBytes       = 1280                  // size of a full packet with its headers
	turn              = 10 * time.Millisecond // interval at which a shared medium serves a station: over less time a rate shows a turn, not the path
	headerBytes       = delivery.HeaderBytes
	initialRate       = 10 * packetBytes / 0.020
	leastRate         = 2 * packetBytes // bytes a second: a packet every half second
	mostRate          = 1.25e9
	firstWindow       = 10 * packetBytes // RFC 9002, 7.2
	burstPackets      = 2
	burstTime         = 1500 * time.Microsecond // timers of a real host fire about a millisecond late
	mostBurst         = 32 * packetBytes        // quic-go queues 128 packets for its reader, and drops the newest
	roundLeast        = 4 * time.Millisecond    // a round is a quarter of the round trip, or this
	below             = 0.98                    // share of the measured delivery rate at which we send
	firstGrowth       = 0.9                     // power of e per round trip, before the first queue
	probePackets      = 0.37                    // the first step of a probe, in additional packets in flight; each step is twice the one before
	probeGrowth       = 0.35                    // largest first step, as a power of e
	mostGrowth        = 0.7                     // largest step, as a power of e
	mostUnproven      = 2                       // multiple of the best delivery rate that limits growth
	probeRounds       = 10                      // minimum pause between two probes, in round trips ...
	probeLeast        = 400 * time.Millisecond  // ... and in time
	probeGain         = 1.03                    // a probe that gained this factor from cross traffic ...
	afterGain         = 2                       // ... is followed by the next after this fraction of the pause
	leastProbePackets = 4                       // a probe's step is judged after this many packets, or at a longer queue: fewer may have met another sender's packet
	queuePackets      = 0.5                     // tolerated queue, in packets at the rate ...
	hostPause         = time.Millisecond        // ... and in time: processes and timers of real hosts are that late
	othersRounds      = 20                      // number of rounds after which a queue of others counts as path delay
	longQueue         = 4                       // multiple of the tolerated queue: a step down for a longer queue is given time
	longSpan          = 10                      // packets over which the delivery rate is measured while it changes little
	stoodStill        = 2                       // if the rate without the longest gap exceeds the delivery rate by this factor, the path stalled
	rateFell          = 0.7                     // a delivery rate below this share of the former one means that the path has changed
)

// Delivered processes the packets of one report, in order of arrival. rtt is the least
// round-trip time. It returns the time by which the path has become longer, if it has just
// detected that, else 0.
func (p *Pacer) Delivered(now time.Duration, list []delivery.Delivery, rtt time.Duration) (longer time.Duration) {
	p.start()
	for _, d := range list {
		p.arrived.add(d)
		queue := p.oneWayDelay.queue(now, d.Arrived-d.Sent, d.Size)
		trip := queue
		if d.RTT > 0 {
			trip = p.roundTrip.queue(now, d.RTT, d.Size)
			queue = min(queue, trip)
		}
		p.stalls.note(now, d, queue, p.fastest(), p.jitter.noise)
		p.jitter.note(d, max(p.rate, p.path))
		p.service.note(d, p.idle(now), rtt)
		if p.roundPackets == 0 || queue < p.queue {
			p.queue = queue
		}
		if p.roundPackets == 0 || trip < p.trip {
			p.trip = trip
		}
		p.roundPackets++
	}
	if len(list) > 0 {
		p.feedbackAt = now
	}
	rtt = max(rtt, time.Millisecond)
	if p.Filling(now) {
		p.fill(now, rtt)
		return 0
	}
	tolerated, visible := p.thresholds()
	if p.roundPackets == 0 || now-p.round < max(rtt/4, roundLeast) {
		return 0
	}
	if delivered, _, took := p.arrived.rate(max(rtt/2, turn), 0); took > 0 {
		p.best.note(now, delivered)
		p.peak.note(now, delivered)
	}
	if p.isBesideCrossTraffic(now) {
		longer = p.lengthen(now, rtt)
		p.nextRound(now)
		return longer
	}
	if p.growing > 0 && p.roundPackets < leastProbePackets && p.queue < tolerated {
		return 0
	}
	switch {
	case p.queue > visible && p.stands(tolerated):
		longer = p.lengthen(now, rtt)
	case p.queue > tolerated && p.drains(tolerated):
	case p.queue > tolerated || p.growing > 0 && p.queue > visible:
		longer = p.shrink(now, rtt)
	default:
		p.otherRounds = 0
		p.grow(now, visible, rtt)
	}
	switch {
	case p.queue < visible:
		p.queueBefore = 0
	case p.queueBefore != 0 && p.arrived.newest().Sent <= p.steppedDownAt:
		p.queueBefore = p.queue // the step down has no effect yet
	}
	p.nextRound(now)
	return longer
}

// fastest returns the transmission time of a full packet at the highest known rate.
func (p *Pacer) fastest() time.Duration {
	return time.Duration(packetBytes / max(p.rate, p.path, p.best.rate()) * float64(time.Second))
}

// emptied returns how much of the queue should have drained since we stepped down for it.
// That is the difference between the delivery rate and our sending rate over the time since.
func (p *Pacer) emptied() time.Duration {
	since := max(0, p.arrived.newest().Sent-p.steppedDownAt)
	return p.drainedBefore + time.Duration(max(0, 1-p.rate/p.carried)*float64(since))
}

// drains reports whether it is too early to see the effect of a step down for a long queue.
func (p *Pacer) drains(tolerated time.Duration) bool {
	return p.steppedDown() && p.queueBefore >= longQueue*tolerated && p.queue < p.queueBefore+tolerated && p.emptied() < p.queueBefore
}

// stands reports whether the Pacer cannot drain the apparent queue: half of it should have drained,
// but it is as long as before. So the path has become longer, or others fill it.
func (p *Pacer) stands(tolerated time.Duration) bool {
	if !p.steppedDown() {
		return false
	}
	emptied := p.emptied()
	return emptied >= max(p.queueBefore/2, 2*tolerated) && (p.queue-p.queueBefore).Abs() < emptied/4
}

// steppedDown reports whether there is a queue for which we have stepped down from a
// measured rate.
func (p *Pacer) steppedDown() bool { return p.queueBefore != 0 && p.isMeasured && p.growing == 0 }

// lengthen treats the standing queue as delay of the path, and restores the rate at which the
// path delivered before the step down. It returns the additional delay. It measures the base
// delays again, since the time that slower added to them depends on the packet size. A
// millisecond too little for some sizes would look like a permanent queue.
func (p *Pacer) lengthen(now, rtt time.Duration) (longer time.Duration) {
	longer = max(p.queue, p.trip) + p.slowedBy
	p.oneWayDelay, p.roundTrip = delayFilter{}, delayFilter{}
	p.isMeasured, p.queueBefore, p.slowedBy, p.otherRounds, p.crossTrafficFor = false, 0, 0, 0, 0
	p.nextProbeAt = now + p.pause(rtt+longer, p.path)
	p.path, p.full = max(p.path, p.carried), max(p.full, p.carried)
	p.set(max(p.rate, below*p.path))
	return longer
}

// shrink lowers the rate below the current delivery rate, so that the queue drains within
// about a round trip. It ignores a queue that our packets did not cause: less was sent than
// the pacer permits, and it arrives as fast as it was sent. If such a queue stays, it counts
// as delay of the path. The result is the same as that of Delivered.
func (p *Pacer) shrink(now, rtt time.Duration) (longer time.Duration) {
	delivered, sent, took, doubtful := p.delivery(rtt)
	idle := sent < 0.8*p.rate && p.waited(now) < (now-p.round)/2 // less was sent than the pacer permits
	if took == 0 {
		return 0
	}
	if idle && delivered > 0.9*sent {
		if p.otherRounds++; p.otherRounds < othersRounds {
			return 0
		}
		return p.lengthen(now, rtt)
	}
	p.otherRounds = 0
	guessed := idle || took < turn
	if guessed {
		delivered = max(delivered, p.rate/2) // the time or the load is too small for a lower estimate
	}
	seen := now >= p.visibleAt && p.arrived.newest().Sent > p.steppedDownAt
	if !seen && p.growing == 0 && (delivered > rateFell*p.path || delivered > 0.9*sent) {
		return 0 // the effect of the last step down is not visible yet
	}
	same := p.queueBefore != 0 && (p.queue-p.queueBefore).Abs() < max(p.tolerable(), p.emptied()/4)
	if p.queueBefore == 0 {
		p.slowedBy = 0
	}
	if previous := cmp.Or(p.path, p.best.rate()); delivered < rateFell*previous {
		p.slowedBy += p.oneWayDelay.slower(1/delivered-1/previous, p.arrived.newest().Size)
		p.roundTrip.slower(1/delivered-1/previous, 0)
	}
	switch {
	case doubtful:
		p.nextProbeAt = now + 2*p.echo(rtt)
	case p.growing > 0 || p.noise() == 0 || delivered < surelyLess*p.path:
		p.nextProbeAt = now + p.pause(rtt, delivered)
	}
	if same {
		p.drainedBefore = p.emptied()
	} else {
		p.drainedBefore, p.carried, p.queueBefore = 0, delivered, p.queue
	}
	p.path, p.full, p.growing, p.visibleAt = delivered, delivered, 0, now+p.echo(rtt)
	p.steppedDownAt, p.isMeasured = now, !guessed
	p.best.fall(now, max(delivered, p.best.rate()/2))
	p.set(below * delivered * (1 - min(0.5, float64(p.queue)/float64(rtt+p.queue))))
	return 0
}

// delivery returns the delivery rate of the path while we load it, the rate at which the same
// packets were sent, and the time over which both are measured. It ignores packets sent
// before frames had to wait for the pacer, since these did not load the path. doubtful means
// that a probe may have ended by chance.
func (p *Pacer) delivery(rtt time.Duration) (delivered, sent float64, took time.Duration, doubtful bool) {
	delivered, sent, took = p.arrived.rate(max(rtt/2, turn), p.loaded)
	// Over such a short time the rate depends on how our packets mix with those of others.
	if long, _, _ := p.arrived.rate(max(2*rtt, p.wire(longSpan*packetBytes)), p.loaded); delivered > rateFell*long {
		delivered = long
	}
	// It also depends on whether the path stalled for a moment, as a radio does.
	if steady := p.arrived.steady(max(rtt/2, turn), p.loaded); steady > stoodStill*delivered {
		delivered = max(delivered, min(steady, cmp.Or(p.path, p.best.rate())))
	}
	if p.noise() > 0 && !p.stalls.isKnown {
		delivered, doubtful = p.believe(delivered, sent, max(rtt/2, turn), took)
	}
	return delivered, sent, took, doubtful
}

// pause returns the time until the next probe, given the measured delivery rate.
func (p *Pacer) pause(rtt time.Duration, delivered float64) time.Duration {
	pause := max(probeRounds*rtt, probeLeast)
	if p.growing > 0 && delivered > probeGain*p.path {
		pause /= afterGain
	}
	return pause
}

// pipe returns the number of packets in flight at the current rate without a queue.
func (p *Pacer) pipe(rtt time.Duration) float64 {
	return p.rate * (rtt + roundLeast).Seconds() / packetBytes
}

// grow probes for bandwidth from time to time. It raises the rate in increasing steps until
// queueing delay rises.
func (p *Pacer) grow(now, visible, rtt time.Duration) {
	elapsed := now - p.round
	p.nextProbeAt = min(p.nextProbeAt, now+p.pause(rtt, p.path)) // the round trip may have become shorter since nextProbeAt was set
	switch {
	case p.rate < below*p.path:
		if p.queue < visible {
			p.set(below * p.path) // the queue is gone
		}
	case p.waited(now) < elapsed/2:
	case p.rate >= mostUnproven*p.best.rate():
		// The rate does not limit sending.
	case p.path == 0:
		p.raise(firstGrowth, elapsed, rtt)
	case p.growing > 0 && p.testedFor < p.echo(rtt)+time.Duration(float64(p.visible())/p.growing):
		p.testedFor += elapsed // the effect of the last step is not visible yet
	case p.growing > 0 || now >= p.nextProbeAt:
		p.growing = min(max(min(probeGrowth, probePackets/p.pipe(rtt)), 2*p.growing), mostGrowth)
		p.set(p.rate * math.Exp(p.growing))
		p.testedFor = 0
	}
}

// echo returns the time until a change of the rate is visible in the peer's reports.
func (p *Pacer) echo(rtt time.Duration) time.Duration {
	return rtt + p.wire(2*packetBytes) + roundLeast
}

// raise lets the rate grow by a factor of e to the given power per round trip.
func (p *Pacer) raise(power float64, elapsed, rtt time.Duration) {
	p.set(p.rate * math.Exp(power*min(1, float64(elapsed)/float64(rtt))))
}

// Lost halves the rate after a burst of lost packets.
func (p *Pacer) Lost(now time.Duration) {
	p.growing, p.path, p.full, p.isMeasured = 0, p.rate/2, 0, false
	p.nextProbeAt = now
	p.set(p.rate / 2)
	p.nextRound(now)
}

// Resumed must be called when a silent path delivers feedback again. It discards the
// arrivals, since the few packets that arrived meanwhile do not show the rate. Frames of
// that time did not wait for the pacer.
func (p *Pacer) Resumed(now time.Duration) {
	p.arrived, p.growing, p.loaded = arrivals{}, 0, now
	if p.waitingSince != 0 {
		p.waitingSince = now
	}
	p.nextRound(now)
}
