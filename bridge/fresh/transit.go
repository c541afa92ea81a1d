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
// queue is not what that adds to the way. It returns what it adds for a packet of size
// bytes.
func (t *transit) slower(perByte float64, size int) time.Duration {
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

// newest is the packet that arrived last; of no size when there was none.
func (a *arrivals) newest() Delivery {
	if a.n == 0 {
		return Delivery{}
	}
	return a.list[(a.n-1)%uint64(len(a.list))]
}

// rate is the bytes a second at which the packets of the last span, at least
// three, arrived; sent is the rate at which the same packets left. Those that
// left before since do not count. took is the time between the first and the
// last arrival, 0 when there are too few.
func (a *arrivals) rate(span, since time.Duration) (delivered, sent float64, took time.Duration) {
	l := a.look(span, since)
	if l.took <= 0 || l.left <= 0 {
		return 0, 0, 0
	}
	return l.bytes / l.took.Seconds(), l.bytes / l.left.Seconds(), l.took
}

// steady is the rate at which they arrived but for the longest gap, in which the path
// may have carried nothing.
func (a *arrivals) steady(span, since time.Duration) float64 {
	l := a.look(span, since)
	if l.took <= l.gap {
		return mostRate
	}
	return (l.bytes - l.gapBytes) / (l.took - l.gap).Seconds()
}

// look is what arrived in some time: its bytes are those of all packets but the first.
type look struct {
	bytes      float64
	took, left time.Duration // from the first to the last: as they arrived, as they left
	gap        time.Duration // the longest between two arrivals
	gapBytes   float64       // of the packet behind it
}

func (a *arrivals) look(span, since time.Duration) (l look) {
	count := min(a.n, uint64(len(a.list)))
	if count < 3 {
		return l
	}
	newest := &a.list[(a.n-1)%uint64(len(a.list))]
	oldest := newest
	for back := uint64(1); back < count; back++ {
		older := &a.list[(a.n-1-back)%uint64(len(a.list))]
		if back > 2 && older.sent < since {
			break
		}
		bytes := float64(oldest.size + headerBytes)
		l.bytes += bytes
		if gap := oldest.arrived - older.arrived; gap > l.gap {
			l.gap, l.gapBytes = gap, bytes
		}
		oldest = older
		if back >= 2 && newest.arrived-oldest.arrived >= span {
			break
		}
	}
	l.took, l.left = newest.arrived-oldest.arrived, newest.sent-oldest.sent
	return l
}

// least is the least time of the last ten to twenty seconds.
type least struct {
	now, former time.Duration // of this slot and of the one before; 0: none
	slot        time.Duration
}

func (l *least) note(now, took time.Duration) {
	if now-l.slot >= transitSlot {
		l.former, l.now, l.slot = l.now, 0, now
	}
	if took = max(took, 1); l.now == 0 || took < l.now {
		l.now = took
	}
}

// value is 0 before the first note.
func (l *least) value() time.Duration {
	if l.former == 0 || l.now != 0 && l.now < l.former {
		return l.now
	}
	return l.former
}

func (l *least) longer(by time.Duration) {
	for _, t := range []*time.Duration{&l.now, &l.former} {
		if *t != 0 {
			*t += by
		}
	}
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
