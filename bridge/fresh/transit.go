package fresh

import "time"

// transit tells queueing delay from the rest of a packet's way: the least of
// the last ten to twenty seconds is the way without a queue. It is kept by size,
// since a large packet takes longer to transmit on every link of the way.
//
// The way there takes two clocks. They may be anywhere, but crystals that differ
// by 100 ppm drift apart by 2 ms in that time, which looks like a queue. The way
// there and back takes one, but has the queue of the way back in it. A queue that
// both show is one on the way there.
type transit struct {
	least, former [sizeClasses]time.Duration // of this slot and of the one before; 0: none
	size          [sizeClasses]int           // of the latest packet
	slot          time.Duration              // when this slot began
}

const (
	transitSlot = 10 * time.Second
	sizeClasses = 8
	sizeClass   = 180 // bytes
)

// queue takes one packet's transit and returns how long it queued.
func (t *transit) queue(now, took time.Duration, size int) time.Duration {
	if now-t.slot >= transitSlot {
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

// surely is the part of what longer transmission adds that is taken for sure: too
// little makes a queue look longer than it is, too much would hide one.
const surely = 0.8

// slower tells that the bottleneck now takes so many seconds more for a byte: its
// queue is not what that adds to the way.
func (t *transit) slower(perByte float64) {
	for class := range sizeClasses {
		more := time.Duration(surely * perByte * float64(t.size[class]+headerBytes) * float64(time.Second))
		for _, least := range []*time.Duration{&t.least[class], &t.former[class]} {
			if *least != 0 {
				*least += more
			}
		}
	}
}

// arrivals remembers when the latest packets left, by our clock, and arrived,
// by the peer's.
type arrivals struct {
	list [256]Delivery
	n    uint64 // entries ever made; the newest is n-1
}

func (a *arrivals) add(d Delivery) {
	a.list[a.n%uint64(len(a.list))] = d
	a.n++
}

// rate is the bytes a second at which the packets of the last span, at least
// three, arrived; sent is the rate at which the same packets left. Those that
// left before since do not count. took is the time between the first and the
// last arrival, 0 when there are too few.
func (a *arrivals) rate(span, since time.Duration) (delivered, sent float64, took time.Duration) {
	count := min(a.n, uint64(len(a.list)))
	if count < 3 {
		return 0, 0, 0
	}
	newest := &a.list[(a.n-1)%uint64(len(a.list))]
	oldest, bytes := newest, 0.0
	for back := uint64(1); back < count; back++ {
		older := &a.list[(a.n-1-back)%uint64(len(a.list))]
		if back > 2 && older.Sent < since {
			break
		}
		bytes += float64(oldest.Size + headerBytes)
		oldest = older
		if back >= 2 && newest.Arrived-oldest.Arrived >= span {
			break
		}
	}
	took = newest.Arrived - oldest.Arrived
	left := newest.Sent - oldest.Sent
	if took <= 0 || left <= 0 {
		return 0, 0, 0
	}
	return bytes / took.Seconds(), bytes / left.Seconds(), took
}

// best is the greatest rate of the last ten to twenty seconds.
type best struct {
	now, former float64 // of this slot and of the one before
	slot        time.Duration
}

func (b *best) note(now time.Duration, rate float64) {
	if now-b.slot >= transitSlot {
		b.former, b.now, b.slot = b.now, 0, now
	}
	b.now = max(b.now, rate)
}

// fall forgets what was greater: the path has changed.
func (b *best) fall(now time.Duration, rate float64) { b.now, b.former, b.slot = rate, 0, now }

func (b *best) rate() float64 { return max(b.now, b.former) }
