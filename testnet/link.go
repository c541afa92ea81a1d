package testnet

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// Link is one direction of an emulated link: a tail-drop queue, a transmitter
// (by a rate, by a trace, or on the air) and a wire. It has no clock and no
// goroutine: the caller passes now, which must not go back, and collects what
// has arrived. The same seed and calls give
// the same results. T is what the caller wants back with a packet. One goroutine
// at a time.
type Link[T any] struct {
	params      Params
	airs        *Airs
	seed        uint64
	rand        *rand.Rand
	bad         bool // state of the Gilbert-Elliott chain
	queue       []*packet[T]
	bytes       int64         // of queue, the one in transmission included
	freeAt      time.Duration // when the transmitter has sent all that is queued
	lastArrival time.Duration // latest arrival of a packet that keeps its order
	chances     chances       // with a trace
	station     *station[T]   // with wifi; its packets in the air are not in queue
	wire        arrivals[T]
	sent        uint64
	counts      Counts
}

// Outcome says what becomes of a packet that was sent.
type Outcome uint8

const (
	Arrives   Outcome = iota // once
	Twice                    // arrives and was duplicated
	Lost                     // on the wire at random, or in the air with all tries
	Overflow                 // the queue was full
	TooBig                   // above the MTU
	CutOff                   // the link was cut
	Forgotten                // no host has this address, or no socket this port
)

func (f Outcome) String() string {
	return [...]string{"arrives", "twice", "lost", "overflow", "too big", "cut off", "forgotten"}[f]
}

// Counts are in packets. Sent = Delivered + Lost + Overflow + TooBig + CutOff +
// under way, with Duplicated beside it.
type Counts struct {
	Sent, Delivered, Duplicated, Lost, Overflow, TooBig, CutOff uint64
}

// NewLink returns a link whose randomness depends on seed alone. It panics if
// p.Check fails.
func NewLink[T any](seed uint64, p Params) *Link[T] { return NewLinkIn[T](NewAirs(seed), seed, p) }

// NewLinkIn is NewLink for a link that shares the airs of others.
func NewLinkIn[T any](airs *Airs, seed uint64, p Params) *Link[T] {
	l := &Link[T]{airs: airs, seed: seed, rand: rand.New(rand.NewPCG(seed, 0x6c696e6b))}
	l.Set(0, p)
	return l
}

// Sent is the outlook of a packet as things stand. A later Set moves those that
// have not left the transmitter yet. With wifi nothing is known ahead: times are
// zero, and a packet that Arrives may still be lost.
type Sent struct {
	Outcome Outcome
	Departs time.Duration // last bit on the wire
	Arrives time.Duration // first copy, if it arrives
}

// Send offers a packet of size bytes, IP header included, and returns its
// outlook.
func (l *Link[T]) Send(now time.Duration, size int, payload T) Sent {
	l.advance(now)
	p := l.packet(size, payload)
	switch {
	case l.params.Cut:
		l.counts.CutOff++
		return Sent{Outcome: CutOff}
	case l.params.MTU > 0 && size > l.params.MTU:
		l.counts.TooBig++
		return Sent{Outcome: TooBig}
	case l.overflows(size):
		l.counts.Overflow++
		return Sent{Outcome: Overflow}
	}
	l.accept(p)
	l.queue = append(l.queue, p)
	l.bytes += int64(size)
	if l.station != nil {
		l.station.requestAir(now)
		return Sent{Outcome: p.outcome}
	}
	p.start = max(now, l.freeAt)
	p.depart = l.transmit(p.start, size)
	return Sent{Outcome: p.outcome, Departs: p.depart, Arrives: l.put(p)}
}

// packet makes a packet and draws its luck.
func (l *Link[T]) packet(size int, payload T) *packet[T] {
	l.sent++
	l.counts.Sent++
	p := &packet[T]{order: l.sent, size: size, payload: payload}
	// Always the same number of draws, so that one parameter does not change
	// the luck of the others.
	for i := range p.draws {
		p.draws[i] = l.rand.Float64()
	}
	switch lost := l.loses(p.draws[drawLoss]); {
	case lost:
		p.outcome = Lost
	case p.draws[drawDuplicate] < l.params.Duplicate:
		p.outcome = Twice
	}
	p.reordered = p.draws[drawReorder] < l.params.Reorder
	return p
}

// accept counts the luck of a packet that the link takes.
func (l *Link[T]) accept(p *packet[T]) {
	switch p.outcome {
	case Lost:
		l.counts.Lost++
	case Twice:
		l.counts.Duplicated++
	}
}

// transmit returns when the transmitter has sent size bytes with which it begins
// at start.
func (l *Link[T]) transmit(start time.Duration, size int) time.Duration {
	p := l.params
	if p.Trace != nil {
		return l.chances.send(p.Trace, start+p.From, size) - p.From
	}
	if p.Stall == (Stall{}) && p.Fade == (Fade{}) {
		return start + p.transmission(size)
	}
	return p.departure(start, float64(size)*8)
}

// Next returns when something happens next, if anything is under way: a packet
// arrives or, with wifi, the station tries to send or has sent.
func (l *Link[T]) Next() (time.Duration, bool) {
	at, ok := time.Duration(0), false
	if l.station != nil {
		at, ok = l.station.next()
	}
	if len(l.wire) > 0 && (!ok || l.wire[0].at < at) {
		return l.wire[0].at, true
	}
	return at, ok
}

// Receive returns a packet that has arrived by now: first in time, then in the
// order of sending.
func (l *Link[T]) Receive(now time.Duration) (payload T, ok bool) {
	l.advance(now)
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

// Free returns when a packet waits for nothing: the transmitter will have sent
// all that is queued now, does not stand still, and has its next chance. It does
// not know when a station gets the air.
func (l *Link[T]) Free(now time.Duration) time.Duration {
	now = max(now, l.freeAt)
	if p := l.params; p.Trace != nil {
		return l.chances.nextFree(p.Trace, now+p.From) - p.From
	}
	return l.params.stallEnd(now)
}

// Set changes the parameters from now on. What waits leaves at the new rate,
// the packet being transmitted with its remaining bits (with a trace or wifi,
// before or after, all of them); what is on the wire arrives when it would
// have, unless the link is cut, which loses both. A
// shorter delay lets new packets overtake old ones, as a new route does. It
// panics if p.Check fails.
func (l *Link[T]) Set(now time.Duration, p Params) {
	if err := p.Check(); err != nil {
		panic("testnet: " + err.Error())
	}
	l.advance(now)
	old := l.params
	l.params, l.lastArrival = p, 0
	if p.Cut {
		l.drop(now)
	}
	l.wire = l.wire.departed(now)
	moved := p.medium() != old.medium()
	if moved && l.station != nil {
		l.removeStation()
	}
	if moved && p.Trace != nil {
		l.chances = p.Trace.from(now + p.From)
	}
	switch {
	case p.Wifi != "" && l.station == nil:
		l.addStation(now)
	case p.Wifi != "":
	case len(l.queue) == 0:
		l.freeAt = now
	case moved:
		l.retime(now, old)
	}
	if p.Wifi == "" {
		for _, q := range l.queue {
			l.put(q)
		}
	}
	l.advance(now)
}

// retime lays the queue on the transmitter anew.
func (l *Link[T]) retime(now time.Duration, old Params) {
	free := now
	for i, q := range l.queue {
		q.start = free
		if i == 0 && old.hasRate() && l.params.hasRate() { // a part of it is out already
			q.depart = l.params.departure(now, old.carries(now, q.depart))
		} else {
			q.depart = l.transmit(free, q.size)
		}
		free = q.depart
	}
	l.freeAt = free
}

// put puts p on the wire and returns when it arrives.
func (l *Link[T]) put(p *packet[T]) time.Duration {
	l.freeAt = p.depart
	if p.outcome == Lost {
		return 0
	}
	scale := func(max time.Duration, draw int) time.Duration {
		return time.Duration(float64(max) * p.draws[draw])
	}
	at := p.depart + l.params.Delay + scale(l.params.Jitter, drawJitter)
	if p.reordered {
		at += scale(max(l.params.Delay, time.Millisecond), drawHold)
	} else {
		at = max(at, l.lastArrival)
		l.lastArrival = at
	}
	heap.Push(&l.wire, arrival[T]{at: at, packet: p})
	if p.outcome == Twice {
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
	if l.station != nil {
		return l.bytes+int64(size) > l.params.Queue // what is in the air is not in it
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

// advance forgets what has left the transmitter, and lets the air live.
func (l *Link[T]) advance(now time.Duration) {
	if l.station != nil {
		l.station.air.run(now)
		return
	}
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
	if l.station != nil {
		for _, p := range slices.Concat(l.station.window, l.queue) {
			if p.outcome != Lost && !p.lostInAir {
				l.counts.CutOff++
			}
		}
		l.station.clear()
	}
	l.queue, l.wire, l.bytes, l.freeAt = nil, arrived, 0, now
}
