package pacing

import (
	"time"

	"achbridge/bridge/delivery"
)

// jitter measures random extra delay that is not caused by a queue of our packets: timers of a
// busy host, or the turns of a radio. A bottleneck delivers packets no faster than it
// transmits them. So packets that arrive faster were delayed before by something other than a
// queue. If others share the path, its rate is higher than we know. Therefore only packets
// that arrive much faster count. The zero value is ready and means a path without jitter.
type jitter struct {
	last      time.Duration // arrival time of the previous packet
	rate      float64       // current or recent rate of the path, bytes a second
	ahead     time.Duration // time by which the current burst of packets arrived faster than the path transmits
	most      time.Duration // maximum of ahead since startedAt, times jitterFast
	count     int           // number of packets since startedAt
	startedAt time.Duration // start of the current measurement, by the peer's clock
	noise     time.Duration // moving average of most
}

const (
	jitterPackets = 16  // minimum number of packets of a measurement, which lasts at least one turn
	jitterRise    = 8   // measurements in the average when noise rises ...
	jitterFall    = 32  // ... and when it falls
	jitterFast    = 1.5 // multiple of the rate that counts as much faster
	jitterLag     = 64  // packets over which rate decays: those sent before the rate fell may still arrive
)

// note records one packet, in order of arrival. rate is the known rate of the path.
func (j *jitter) note(d delivery.Delivery, rate float64) {
	j.rate = max(rate, j.rate-(j.rate-rate)/jitterLag)
	least := time.Duration(float64(d.Size+headerBytes) / (jitterFast * j.rate) * float64(time.Second))
	j.ahead = min(max(0, j.ahead+least-(d.Arrived-j.last)), turn)
	j.last = d.Arrived
	j.most = max(j.most, time.Duration(jitterFast*float64(j.ahead)))
	if j.count++; j.count < jitterPackets || d.Arrived-j.startedAt < turn {
		return
	}
	looks := time.Duration(jitterRise)
	if j.most < j.noise {
		looks = jitterFall
	}
	j.noise += (j.most - j.noise) / looks
	j.most, j.count, j.startedAt = 0, 0, d.Arrived
}
