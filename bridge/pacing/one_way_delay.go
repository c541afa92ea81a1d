package pacing

import (
	"time"

	"achbridge/bridge/delivery"
)

// delayFilter separates the queueing delay from the rest of a packet's delay. The smallest delay of
// the last ten to twenty seconds is the base delay, without a queue. Each size class has its
// own base delay, since a large packet takes longer to transmit.
//
// The one-way delay is measured with two clocks. Their offset does not matter, but their
// drift of up to 100 ppm adds 2 ms in that time, which looks like a queue. The round trip is
// measured with one clock, but includes the queue of the return path. So only a queue that
// both measurements show is a queue on the forward path.
type delayFilter struct {
	least, former [sizeClasses]time.Duration // smallest delay in this slot and in the previous one, 0 without packets
	size          [sizeClasses]int           // size of the latest packet
	slot          time.Duration              // when this slot began
}

const (
	delaySlot   = 10 * time.Second
	sizeClasses = 8
	sizeClass   = 180 // bytes
)

// queue records the delay of one packet and returns its queueing delay.
func (t *delayFilter) queue(now, took time.Duration, size int) time.Duration {
	if now-t.slot >= delaySlot {
		t.former, t.least, t.slot = t.least, [sizeClasses]time.Duration{}, now
	}
	class := min(size/sizeClass, sizeClasses-1)
	t.size[class] = size
	if took == 0 {
		took = 1
	}
	if t.least[class] == 0 || took < t.least[class] {
		t.least[class] = took
	}
	least := t.least[class]
	if t.former[class] != 0 {
		least = min(least, t.former[class])
	}
	return took - least
}

// surely is the share of the additional transmission time by which slower raises the base
// delay. A smaller share makes a queue look longer than it is. A greater one would hide a
// queue.
const surely = 0.8

// slower records that the bottleneck now takes perByte seconds longer for each byte, so that
// this time does not count as queueing delay. It returns the time added for a packet of size
// bytes.
func (t *delayFilter) slower(perByte float64, size int) time.Duration {
	longer := func(size int) time.Duration {
		return time.Duration(surely * perByte * float64(size+headerBytes) * float64(time.Second))
	}
	for class := range sizeClasses {
		more := longer(t.size[class])
		for _, least := range []*time.Duration{&t.least[class], &t.former[class]} {
			if *least != 0 {
				*least += more
			}
		}
	}
	return longer(size)
}

// arrivals remembers when the latest packets were sent, by our clock, and when they arrived,
// by the peer's clock.
type arrivals struct {
	list [256]delivery.Delivery
	n    uint64 // number of entries ever added; the newest is n-1
}

func (a *arrivals) add(d delivery.Delivery) {
	a.list[a.n%uint64(len(a.list))] = d
	a.n++
}

// newest returns the packet that arrived last, or one of size 0 if none has arrived.
func (a *arrivals) newest() delivery.Delivery {
	if a.n == 0 {
		return delivery.Delivery{}
	}
	return a.list[(a.n-1)%uint64(len(a.list))]
}

// rate returns the rate in bytes a second at which the packets of the last span arrived, and
// the rate at which the same packets were sent. It omits packets sent before since, beyond the
// latest three. took is the time between the first and the last arrival. It is 0 if there are
// fewer than three packets.
func (a *arrivals) rate(span, since time.Duration) (delivered, sent float64, took time.Duration) {
	l := a.window(span, since)
	if l.took <= 0 || l.sentIn <= 0 {
		return 0, 0, 0
	}
	return l.bytes / l.took.Seconds(), l.bytes / l.sentIn.Seconds(), l.took
}

// steady returns the rate at which packets arrived, without the longest gap between two of
// them, since the path may have stalled in it.
func (a *arrivals) steady(span, since time.Duration) float64 {
	l := a.window(span, since)
	if l.took <= l.gap {
		return mostRate
	}
	return (l.bytes - l.gapBytes) / (l.took - l.gap).Seconds()
}

// window describes the packets that arrived in a span of time. bytes omits the first packet.
type window struct {
	bytes        float64
	took, sentIn time.Duration // time from the first to the last packet: of arrivals, and of departures
	gap          time.Duration // the longest time between two arrivals
	gapBytes     float64       // size of the packet after that gap
}

func (a *arrivals) window(span, since time.Duration) (l window) {
	count := min(a.n, uint64(len(a.list)))
	if count < 3 {
		return l
	}
	newest := &a.list[(a.n-1)%uint64(len(a.list))]
	oldest := newest
	for back := uint64(1); back < count; back++ {
		older := &a.list[(a.n-1-back)%uint64(len(a.list))]
		if back > 2 && older.Sent < since {
			break
		}
		bytes := float64(oldest.Size + headerBytes)
		l.bytes += bytes
		if gap := oldest.Arrived - older.Arrived; gap > l.gap {
			l.gap, l.gapBytes = gap, bytes
		}
		oldest = older
		if back >= 2 && newest.Arrived-oldest.Arrived >= span {
			break
		}
	}
	l.took, l.sentIn = newest.Arrived-oldest.Arrived, newest.Sent-oldest.Sent
	return l
}

// best keeps the highest rate of the last ten to twenty seconds.
type best struct {
	now, former float64 // highest rate in this slot and in the previous one
	slot        time.Duration
}

func (b *best) note(now time.Duration, rate float64) {
	if now-b.slot >= delaySlot {
		b.former, b.now, b.slot = b.now, 0, now
	}
	b.now = max(b.now, rate)
}

// fall replaces all rates by a lower one, since the path has changed.
func (b *best) fall(now time.Duration, rate float64) { b.now, b.former, b.slot = rate, 0, now }

func (b *best) rate() float64 { return max(b.now, b.former) }
