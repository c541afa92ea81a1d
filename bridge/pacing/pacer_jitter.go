package pacing

import (
	"math"
	"time"
)

// Jitter looks like a queue, and distorts a rate that is measured over a short time. On a path
// without jitter nothing in this file has an effect.

const (
	sharePackets = 8    // fraction of a packet's transmission time: cross traffic causes that much jitter
	denseNoise   = 1.5  // multiple of the noise beyond a packet's time that remains in the minimum of many delays
	shortSpan    = 4    // multiple of the noise: a measurement that is not longer does not show the rate
	noiseSpan    = 16   // multiple of the noise: a measurement that long shows the rate
	mostDoubt    = 0.25 // largest share by which a probe's rate may exceed the measured delivery rate
	surelyLess   = 0.9  // below this share of path the rate is lower, despite any jitter
)

// noise returns the random extra delay of packets, without the share that cross traffic causes.
func (p *Pacer) noise() time.Duration {
	return max(0, p.jitter.noise-p.packet()/sharePackets)
}

// packet returns the transmission time of a full packet on the path.
func (p *Pacer) packet() time.Duration {
	return time.Duration(packetBytes / max(p.rate, p.path) * float64(time.Second))
}

// tolerable returns the queueing delay that is tolerated on a path without jitter.
func (p *Pacer) tolerable() time.Duration { return max(hostPause, p.wire(queuePackets*packetBytes)) }

// visible returns the queueing delay that ends a probe on a path without jitter.
func (p *Pacer) visible() time.Duration { return max(p.tolerable()/4, hostPause/2) }

// thresholds returns the queueing delay that is tolerated and the one that ends a probe.
// Packets that follow each other closely keep their order, so each waits for the latest one
// before it. Therefore even the smallest delay of many is longer than that of a single packet. A
// probe must not end by chance, since the next one is far away.
func (p *Pacer) thresholds() (tolerated, visible time.Duration) {
	noise := p.noise()
	dense := time.Duration(denseNoise * float64(max(0, noise-p.packet())))
	if p.growing > 0 {
		noise = max(noise, dense)
		return p.tolerable() + noise, p.visible() + noise
	}
	return p.tolerable() + dense, p.visible() + dense
}

// believe corrects the measured delivery rate for jitter:
//
//   - A measurement that is too short shows nothing. The result is path, or the rate before
//     the last step of a probe if that is higher.
//   - After a probe the result may exceed the measured rate, up to the sending rate.
//   - Otherwise the delivery rate is compared with the sending rate over a long time. The
//     delivery rate itself would be lower each time, and the estimate would sink steadily.
//
// doubtful means that a probe that gained much may have ended by chance.
func (p *Pacer) believe(delivered, sent float64, span, took time.Duration) (rate float64, doubtful bool) {
	noise := p.noise()
	switch {
	case took < shortSpan*noise:
		rate = max(p.path, p.rate*math.Exp(-p.growing))
		return rate, p.growing > 0 && rate > probeGain*p.path
	case p.growing > 0:
		doubt := min(mostDoubt, noise.Seconds()/took.Seconds())
		rate = max(delivered, min(sent, delivered*(1+doubt)))
		return rate, rate >= sent && rate > probeGain*p.path
	}
	long, left, took := p.arrived.rate(max(span, noiseSpan*noise), p.loaded)
	if took == 0 {
		return delivered, false
	}
	return max(delivered, p.path*min(1, long/left)), false
}
