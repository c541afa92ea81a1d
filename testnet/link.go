package testnet

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// Link is one direction of an emulated link: a tail-drop queue, a transmitter
// and a wire. It has no clock and no goroutine: the caller passes now, which
// must not go back, and collects what has arrived. The same seed and calls give
// the same results. T is what the caller wants back with a packet. One goroutine
// at a time.
type Link[T any] struct {
	params Params
	rand   *rand.Rand
	bad    bool // state of the Gilbert-Elliott chain
	queue  []*packet[T]
	bytes  int64         // of queue, the one in transmission included
	free   time.Duration // when the transmitter has sent all that is queued
	last   time.Duration // latest arrival of a packet that keeps its order
	wire   arrivals[T]
	sent   uint64
	counts Counts
}

// Fate says what becomes of a packet that was sent.
type Fate uint8

const (
	Arrives   Fate = iota // once
	Twice                 // arrives and was duplicated
	Lost                  // on the wire, at random
	Overflow              // the queue was full
	TooBig                // above the MTU
	CutOff                // the link was cut
	Forgotten             // no host has this address, or no socket this port
)

func (f Fate) String() string {
	return [...]string{"arrives", "twice", "lost", "overflow", "too big", "cut off", "forgotten"}[f]
}

// Counts are in packets. Sent = Delivered + Lost + Overflow + TooBig + CutOff +
// under way, with Duplicated beside it.
type Counts struct {
	Sent, Delivered, Duplicated, Lost, Overflow, TooBig, CutOff uint64
}

// NewLink returns a link whose randomness depends on seed alone. It panics if
// p.Check fails.
func NewLink[T any](seed uint64, p Params) *Link[T] {
	l := &Link[T]{rand: rand.New(rand.NewPCG(seed, 0x6c696e6b))}
	l.Set(0, p)
	return l
}

// Sent is the outlook of a packet as things stand. A later Set moves those that
// have not left the transmitter yet.
type Sent struct {
	Fate    Fate
	Departs time.Duration // last bit on the wire
	Arrives time.Duration // first copy, if it arrives
}

// Send offers a packet of size bytes, IP header included, and returns its
// outlook.
func (l *Link[T]) Send(now time.Duration, size int, payload T) Sent {
	l.advance(now)
	l.sent++
	l.counts.Sent++
	p := &packet[T]{order: l.sent, size: size, payload: payload}
	// Always the same number of draws, so that one parameter does not change
	// the luck of the others.
	for i := range p.draws {
		p.draws[i] = l.rand.Float64()
	}
	lost := l.loses(p.draws[drawLoss])
	switch {
	case l.params.Cut:
		l.counts.CutOff++
		return Sent{Fate: CutOff}
	case l.params.MTU > 0 && size > l.params.MTU:
		l.counts.TooBig++
		return Sent{Fate: TooBig}
	case l.overflows(size):
		l.counts.Overflow++
		return Sent{Fate: Overflow}
	}
	switch {
	case lost:
		p.fate = Lost
		l.counts.Lost++
	case p.draws[drawDuplicate] < l.params.Duplicate:
		p.fate = Twice
		l.counts.Duplicated++
	}
	p.late = p.draws[drawReorder] < l.params.Reorder
	l.queue = append(l.queue, p)
	l.bytes += int64(size)
	p.start = max(now, l.free)
	p.depart = p.start + l.params.transmission(size)
	return Sent{Fate: p.fate, Departs: p.depart, Arrives: l.put(p)}
}

// Next returns when the next packet arrives, if one is under way.
func (l *Link[T]) Next() (time.Duration, bool) {
	if len(l.wire) == 0 {
		return 0, false
	}
	return l.wire[0].at, true
}

// Receive returns a packet that has arrived by now: first in time, then in the
// order of sending.
func (l *Link[T]) Receive(now time.Duration) (payload T, ok bool) {
	if len(l.wire) == 0 || l.wire[0].at > now {
		return payload, false
	}
	a := heap.Pop(&l.wire).(arrival[T])
	if !a.copy {
		l.counts.Delivered++
	}
	return a.packet.payload, true
}

// Params returns the present parameters.
func (l *Link[T]) Params() Params { return l.params }

// Counts returns what happened since the link was made.
func (l *Link[T]) Counts() Counts { return l.counts }

// Free returns when the transmitter will have sent all that is queued now: a
// packet sent then waits for nothing.
func (l *Link[T]) Free(now time.Duration) time.Duration { return max(now, l.free) }

// Set changes the parameters from now on. What waits leaves at the new rate,
// the packet being transmitted with its remaining bits; what is on the wire
// arrives when it would have, unless the link is cut, which loses both. A
// shorter delay lets new packets overtake old ones, as a new route does. It
// panics if p.Check fails.
func (l *Link[T]) Set(now time.Duration, p Params) {
	if err := p.Check(); err != nil {
		panic("testnet: " + err.Error())
	}
	l.advance(now)
	old := l.params
	l.params, l.last = p, 0
	if p.Cut {
		l.drop(now)
		return
	}
	if len(l.queue) == 0 {
		l.free = now
		return
	}
	l.wire = l.wire.departed(now)
	if p.Rate != old.Rate {
		l.retime(now, old)
	}
	for _, q := range l.queue {
		l.put(q)
	}
	l.advance(now)
}

// retime lays the queue on the transmitter anew.
func (l *Link[T]) retime(now time.Duration, old Params) {
	free := now
	for i, q := range l.queue {
		need := l.params.transmission(q.size)
		if i == 0 { // in transmission: a part of it is out already
			full := old.transmission(q.size)
			need = time.Duration(float64(need) * float64(q.depart-now) / float64(full))
		}
		q.start, q.depart = free, free+need
		free = q.depart
	}
	l.free = free
}

// put puts p on the wire and returns when it arrives.
func (l *Link[T]) put(p *packet[T]) time.Duration {
	l.free = p.depart
	if p.fate == Lost {
		return 0
	}
	scale := func(max time.Duration, draw int) time.Duration {
		return time.Duration(float64(max) * p.draws[draw])
	}
	at := p.depart + l.params.Delay + scale(l.params.Jitter, drawJitter)
	if p.late {
		at += scale(max(l.params.Delay, time.Millisecond), drawHold)
	} else {
		at = max(at, l.last)
		l.last = at
	}
	heap.Push(&l.wire, arrival[T]{at: at, packet: p})
	if p.fate == Twice {
		second := p.depart + l.params.Delay + scale(l.params.Jitter, drawSecond)
		heap.Push(&l.wire, arrival[T]{at: max(at, second), packet: p, copy: true})
	}
	return at
}

// overflows reports whether the queue has no room. The packet in transmission
// is not in the queue; an idle transmitter takes any packet.
func (l *Link[T]) overflows(size int) bool {
	if len(l.queue) == 0 || l.params.Queue == 0 {
		return false
	}
	return l.bytes-int64(l.queue[0].size)+int64(size) > l.params.Queue
}

// loses steps the Gilbert-Elliott chain.
func (l *Link[T]) loses(draw float64) bool {
	p := l.params
	switch {
	case p.Burst == 0 || p.Loss == 0:
		l.bad = false
		return draw < p.Loss
	case l.bad:
		l.bad = draw >= 1/p.Burst
	default:
		l.bad = draw < p.Loss/(1-p.Loss)/p.Burst
	}
	return l.bad
}

// advance forgets what has left the transmitter.
func (l *Link[T]) advance(now time.Duration) {
	n := 0
	for n < len(l.queue) && l.queue[n].depart <= now {
		l.bytes -= int64(l.queue[n].size)
		n++
	}
	if n > 0 {
		l.queue = append(l.queue[:0], l.queue[n:]...)
	}
}

// drop loses everything that is under way. What arrived by now is the
// caller's to collect.
func (l *Link[T]) drop(now time.Duration) {
	var arrived arrivals[T]
	for _, a := range l.wire {
		switch {
		case a.at <= now:
			heap.Push(&arrived, a)
		case !a.copy:
			l.counts.CutOff++
		}
	}
	l.queue, l.wire, l.bytes, l.free = nil, arrived, 0, now
}
