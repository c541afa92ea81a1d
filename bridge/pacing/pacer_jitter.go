package pacing

import (
	"math"
	"time"
)

// What packets take longer by chance looks like a queue, and makes what a short look at
// arrivals tells of the rate wrong. Where there is none, none of this changes anything.

const (
	sharePackets = 8                     // part of a packet's time: others that share the path cause as much
	noiseLeast   = 50 * time.Microsecond // less is none
	denseNoise   = 1.5                   // times the noise beyond a packet's time stays even in the shortest of many queues
	sparseNoise  = 4                     // part of it that stays in that of a few packets
	noisePackets = 2                     // times noise to what is visible: so many packets tell
	mostPackets  = 32                    // packets that a round takes for that
	shortLook    = 4                     // times the noise: what takes no longer tells nothing about the rate
	longLook     = 16                    // times the noise: what takes so long tells it
	mostDoubt    = 0.25                  // of the rate that a probe may have found though less arrived
	stillGrows   = 1.04                  // a probe that gained more than that and ended by chance goes on soon
	surelyLess   = 0.9                   // of the path is less, whatever chance does
	surelyQueue  = 3                     // times the noise beyond what is tolerated is a queue, whatever chance does
	muchLess     = 0.8                   // of the path is so much less that it was mistaken
)

// noise is what packets take longer by chance beyond what others on the path cause.
func (p *Pacer) noise() time.Duration {
	return max(0, p.jitter.noise-max(p.packet()/sharePackets, noiseLeast))
}

// packet is how long a full one takes on the path.
func (p *Pacer) packet() time.Duration {
	return time.Duration(packetBytes / max(p.rate, p.path) * float64(time.Second))
}

// tolerable is the queue that is tolerated on a path without jitter.
func (p *Pacer) tolerable() time.Duration { return max(queueLeast, p.wire(queuePackets*packetBytes)) }

// visible is the queue that ends a probe on a path without jitter.
func (p *Pacer) visible() time.Duration { return max(p.tolerable()/4, queueLeast/2) }

// thresholds are the queue that is tolerated and the one that ends a probe. Packets that
// follow each other closely keep their order, so that each waits for the latest before
// it: then even the least delay of many is longer than that of one alone. A probe
// must not end by chance, since the next is far away.
func (p *Pacer) thresholds() (tolerated, visible time.Duration) {
	noise := p.noise()
	dense := time.Duration(denseNoise * float64(max(0, noise-p.packet())))
	if p.growing > 0 {
		noise = max(noise, dense)
		return p.tolerable() + noise, p.visible() + noise
	}
	return p.tolerable() + max(dense, noise/sparseNoise), p.visible() + dense
}

// clear reports that enough packets have arrived in this round to tell a queue from chance.
func (p *Pacer) clear(tolerated, visible time.Duration) bool {
	packets := int(noisePackets * p.noise() / visible)
	return p.seen >= min(packets, mostPackets) || p.queue >= tolerated+p.jitter.noise
}

// believe corrects the rate at which the path delivered for chance. A look that is too short
// tells nothing: then it is that before the last step of a probe. What arrived in a probe may
// be less than it found. Else what arrived is held against what left in a long time:
// each by itself would be lower each time, and so the path ever slower. But while a queue
// stands that is longer than chance makes it, all that the path carries arrives, no matter
// when frames waited. doubtful
// says that a probe that gained much may have ended by chance.
func (p *Pacer) believe(delivered, sent float64, span, took time.Duration) (rate float64, doubtful bool) {
	noise := p.noise()
	if p.growing == 0 && p.queue > p.tolerable()+surelyQueue*p.jitter.noise {
		span := max(span, longLook*p.jitter.noise, p.wire(longSpan*packetBytes))
		// There may have been a moment in it when no frame was there.
		if long := p.arrived.steady(span, 0); long < muchLess*p.path {
			return long, false
		}
	}
	switch {
	case took < shortLook*noise:
		rate = max(p.path, p.rate*math.Exp(-p.growing))
		return rate, p.growing > 0 && rate > stillGrows*p.path
	case p.growing > 0:
		doubt := min(mostDoubt, noise.Seconds()/took.Seconds())
		rate = max(delivered, min(sent, delivered*(1+doubt)))
		return rate, rate >= sent && rate > stillGrows*p.path
	}
	long, left, took := p.arrived.rate(max(span, longLook*noise), p.loaded)
	if took == 0 || long < rateFell*left {
		return delivered, false
	}
	return max(delivered, p.path*min(1, long/left)), false
}
