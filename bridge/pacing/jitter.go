package pacing

import (
	"time"

	"achbridge/bridge/delivery"
)

// jitter knows by how much packets take longer by chance, though nothing of ours queues:
// a busy host's timers, a radio's turns. A link hands out packets no faster than it
// transmits them. So what arrives faster than that had been held up before by something that
// is no queue. The rate of a link that others share is more than what we know of it;
// therefore only what arrives much faster counts. The zero value is ready: a path without jitter.
type jitter struct {
	last   time.Duration // arrival of the packet before
	rate   float64       // bytes a second that the path carries, or carried lately
	ahead  time.Duration // by how much it has been faster since packets were held up
	most   time.Duration // the most of ahead since looked
	count  int           // packets since
	looked time.Duration // by the peer's clock
	noise  time.Duration // most on average
}

const (
	jitterLook = 16                    // packets, and at least ...
	jitterSpan = 10 * time.Millisecond // ... in which most is taken
	jitterRise = 8                     // of which noise is an average when it rises ...
	jitterFall = 32                    // ... and when it falls
	jitterFast = 1.5                   // times the rate is much faster
	jitterLag  = 64                    // packets that left before the rate fell may still arrive
	jitterMost = 10 * time.Millisecond // what is held up for longer stands still
)

// note takes one packet in order of arrival, and the rate that the path is known to carry.
func (j *jitter) note(d delivery.Delivery, rate float64) {
	j.rate = max(rate, j.rate-(j.rate-rate)/jitterLag)
	least := time.Duration(float64(d.Size+headerBytes) / (jitterFast * j.rate) * float64(time.Second))
	j.ahead = min(max(0, j.ahead+least-(d.Arrived-j.last)), jitterMost)
	j.last = d.Arrived
	j.most = max(j.most, time.Duration(jitterFast*float64(j.ahead)))
	if j.count++; j.count < jitterLook || d.Arrived-j.looked < jitterSpan {
		return
	}
	looks := time.Duration(jitterRise)
	if j.most < j.noise {
		looks = jitterFall
	}
	j.noise += (j.most - j.noise) / looks
	j.most, j.count, j.looked = 0, 0, d.Arrived
}
