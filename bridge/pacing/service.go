package pacing

import (
	"time"

	"achbridge/bridge/delivery"
)

// service averages the delivery rate of the path over round trips while frames wait, stalls
// included. The average rises within a few ticks and falls slowly. A low sample is mostly
// caused by our sending less, or by a stall; a high one cannot be. The zero value is ready.
type service struct {
	rate  float64       // average, bytes a second
	tick  time.Duration // when the current tick began, by the peer's clock
	bytes [24]float64   // bytes that arrived in each of the latest ticks, a ring buffer
	n     int           // index of the current tick in bytes
	last  delivery.Delivery
}

const (
	serviceTick = turn / 2
	serviceRise = 1. / 4 // weight of a higher sample, for each tick
	serviceFall = 1. / 60
	serviceIdle = serviceFall / 8
	serviceGap  = time.Second // after a gap that long the clock was stepped, or nothing was sent
)

// note records one packet, in order of arrival. idle is the time since a frame last waited for
// the pacer. Then arrivals show how much was sent, and little about the path.
func (s *service) note(d delivery.Delivery, idle, rtt time.Duration) {
	gap, left := d.Arrived-s.last.Arrived, d.Sent-s.last.Sent
	unused := gap > turn && left > gap/2 && idle > gap/2
	if unused || d.Arrived-s.tick > serviceGap || d.Arrived < s.tick {
		s.tick, s.bytes[s.n] = d.Arrived, 0
	}
	s.last = d
	for ; d.Arrived-s.tick >= serviceTick; s.tick += serviceTick {
		ticks := min(max(int((max(rtt, turn)+serviceTick/2)/serviceTick), 1), len(s.bytes))
		sum := 0.0
		for back := range ticks {
			sum += s.bytes[(s.n-back+len(s.bytes))%len(s.bytes)]
		}
		sample, gain := sum/(time.Duration(ticks)*serviceTick).Seconds(), serviceRise
		if sample < s.rate {
			gain = serviceFall
			if idle > 2*turn {
				gain = serviceIdle
			}
		}
		s.rate += (sample - s.rate) * gain
		s.n = (s.n + 1) % len(s.bytes)
		s.bytes[s.n] = 0
	}
	s.bytes[s.n] += float64(d.Size + headerBytes)
}
