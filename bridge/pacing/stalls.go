package pacing

import (
	"time"

	"achbridge/bridge/delivery"
)

// stalls knows how the path stands still: over the air it waits for others, sends again, or
// gives its turns to others. What stood in line then is gone by itself afterwards, faster
// than our rate explains. So a stall is nobody's queue, and nothing to slow down for. The
// zero value is ready: a path without stalls.
type stalls struct {
	last   delivery.Delivery
	gap    time.Duration // between two arrivals that may have been a stall; 0: none
	queue  time.Duration // that the packet behind it showed
	since  time.Duration // when that was
	latest time.Duration // when a stall was confirmed last
	slot   time.Duration // when this slot began
	count  [2]int        // stalls of this slot and of the one before
	sum    [2]float64    // of their lengths, in seconds
	square [2]float64    // of the squares of those
	known  bool          // the path stands still at times
}

const (
	stallSlot  = 2 * time.Second
	stallLeast = 2 * time.Millisecond
	stallWires = 1.5  // packets: a gap that is no longer may be one of another sender
	stallCount = 3    // so many in two slots ...
	stallShare = 0.02 // ... and so much of the time make the path one that stands still ...
	stallsGone = 5 * time.Second
	stallNoise = 1.5                    // times what packets take longer by chance a stall takes at least ...
	stallClear = 4 * time.Millisecond   // ... or this
	stallDoubt = 100 * time.Millisecond // a queue that is still there then was none that a stall left
)

// note takes one packet in order of arrival, how long it queued, how long a full one
// takes on the path when it moves, and what packets take longer by chance.
func (s *stalls) note(now time.Duration, d delivery.Delivery, queue, wire, noise time.Duration) {
	if now-s.slot >= stallSlot {
		s.count[1], s.sum[1], s.square[1] = s.count[0], s.sum[0], s.square[0]
		s.count[0], s.sum[0], s.square[0], s.slot = 0, 0, 0, now
	}
	if s.last.Size != 0 {
		own := time.Duration(float64(wire) * float64(d.Size+headerBytes) / packetBytes)
		gap := d.Arrived - s.last.Arrived - max(own, d.Sent-s.last.Sent)
		if gap > max(stallLeast, time.Duration(stallWires*float64(wire))) {
			s.gap, s.queue, s.since = gap, queue, now
		}
	}
	s.last = d
	switch {
	case s.gap == 0:
	case queue <= s.queue-s.gap/2:
		s.count[0]++
		s.sum[0] += s.gap.Seconds()
		s.square[0] += s.gap.Seconds() * s.gap.Seconds()
		s.gap, s.latest = 0, now
	case now-s.since > max(stallDoubt, 2*s.gap):
		s.gap = 0
	}
	sum := s.sum[0] + s.sum[1]
	chance := sum > 0 && s.typical() <= min(time.Duration(stallNoise*float64(noise)), stallClear)
	if s.known {
		s.known = now-s.latest < stallsGone && !chance
	} else {
		s.known = s.count[0]+s.count[1] >= stallCount && sum > 2*stallShare*stallSlot.Seconds() && !chance
	}
}

// presume takes the path for one that stands still until stallsGone.
func (s *stalls) presume(now time.Duration) { s.known, s.latest = true, now }

// typical is how long the path stands still in the stall that a moment of standstill is
// part of, on average.
func (s *stalls) typical() time.Duration {
	sum := s.sum[0] + s.sum[1]
	if sum == 0 {
		return 0
	}
	return time.Duration((s.square[0] + s.square[1]) / sum * float64(time.Second))
}
