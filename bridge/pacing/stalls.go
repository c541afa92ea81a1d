package pacing

import (
	"time"

	"achbridge/bridge/delivery"
)

// stalls detects stalls of the path and measures them. A radio waits for other stations,
// retransmits, or gives its turns to others. After a stall the queue drains faster than our
// rate predicts. So a stall is not a sign of congestion, and needs no step down. The zero
// value is ready and means a path without stalls.
type stalls struct {
	last    delivery.Delivery
	gap     time.Duration // gap between two arrivals that may be a stall, 0 if none
	queue   time.Duration // queueing delay of the packet after the gap
	slot    time.Duration // when this slot began
	count   [2]int        // number of stalls in this slot and in the previous one
	sum     [2]float64    // sums of their lengths, in seconds
	square  [2]float64    // sums of the squares of their lengths
	isKnown bool          // the path stalls at times
}

const (
	stallSlot  = 2 * time.Second
	stallLeast = 2 * time.Millisecond
	stallWires = 1.5                  // packets: another sender may cause a gap of this length
	stallCount = 3                    // minimum number of stalls in two slots for isKnown ...
	stallShare = 0.02                 // ... and their minimum share of the time
	stallNoise = 1.5                  // multiple of the jitter that typical stalls must exceed ...
	stallClear = 4 * time.Millisecond // ... unless they exceed this
)

// note records one packet, in order of arrival. queue is its queueing delay, wire the
// transmission time of a full packet without stalls, and noise the jitter of the path.
func (s *stalls) note(now time.Duration, d delivery.Delivery, queue, wire, noise time.Duration) {
	if now-s.slot >= stallSlot {
		s.count[1], s.sum[1], s.square[1] = s.count[0], s.sum[0], s.square[0]
		s.count[0], s.sum[0], s.square[0], s.slot = 0, 0, 0, now
	}
	if s.last.Size != 0 {
		own := time.Duration(float64(wire) * float64(d.Size+headerBytes) / packetBytes)
		gap := d.Arrived - s.last.Arrived - max(own, d.Sent-s.last.Sent)
		if gap > max(stallLeast, time.Duration(stallWires*float64(wire))) {
			s.gap, s.queue = gap, queue
		}
	}
	s.last = d
	if s.gap != 0 && queue <= s.queue-s.gap/2 {
		s.count[0]++
		s.sum[0] += s.gap.Seconds()
		s.square[0] += s.gap.Seconds() * s.gap.Seconds()
		s.gap = 0
	}
	sum := s.sum[0] + s.sum[1]
	chance := sum > 0 && s.typical() <= min(time.Duration(stallNoise*float64(noise)), stallClear)
	n := s.count[0] + s.count[1]
	s.isKnown = !chance && n > 0 && (s.isKnown || n >= stallCount && sum > 2*stallShare*stallSlot.Seconds())
}

// presume treats the path as one that stalls at times, for a slot or two.
func (s *stalls) presume() {
	s.isKnown = true
	s.count[0]++
}

// typical returns the average length of a stall, weighted by length: the expected length of
// the stall that a random moment of all stalls belongs to.
func (s *stalls) typical() time.Duration {
	sum := s.sum[0] + s.sum[1]
	if sum == 0 {
		return 0
	}
	return time.Duration((s.square[0] + s.square[1]) / sum * float64(time.Second))
}
