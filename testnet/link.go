package testnet

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// Link is one direction of an emulated link: a tail-drop queue, a transmitter
// (with a rate, a trace, or on the air) and a wire. It has no clock and no
// goroutine: the caller passes now, which must not go back, and collects the
// packets that have arrived. The same seed and calls give the same results. T is
// the payload of a packet. A Link is for one goroutine at a time.
type Link[T any] struct {
	params      Params
	airs        *Airs
	seed        uint64
	rand        *rand.Rand
	bad         bool // state of the Gilbert-Elliott chain
	queue       []*packet[T]
	bytes       int64         // bytes in queue, including the packet in transmission
	freeAt      time.Duration // when the transmitter will have sent all queued packets
	lastArrival time.Duration // latest arrival of a packet that is not reordered
	chances     chances       // position in the trace; unused without a trace
	station     *station[T]   // station of a wifi link; its packets in the air are not in queue
	wire        arrivals[T]
	sent        uint64
	counts      Counts
}

// Outcome is what happens to a packet that was sent.
type Outcome uint8

const (
	Arrives   Outcome = iota // arrives once
	Twice                    // is duplicated and arrives twice
	Lost                     // is lost on the wire at random, or in all attempts in the air
	Overflow                 // is dropped since the queue is full
	TooBig                   // is dropped since it exceeds the MTU
	CutOff                   // is dropped since the link is cut
	Forgotten                // is dropped since no host has this address, or no socket this port
)

func (f Outcome) String() string {
	return [...]string{"arrives", "twice", "lost", "overflow", "too big", "cut off", "forgotten"}[f]
}

// Counts are numbers of packets. Sent = Delivered + Lost + Overflow + TooBig +
// CutOff + packets in flight. Duplicated is not part of the sum.
type Counts struct {
	Sent, Delivered, Duplicated, Lost, Overflow, TooBig, CutOff uint64
}

// NewLink returns a link whose randomness depends only on seed. It panics if
// p.Check fails.
func NewLink[T any](seed uint64, p Params) *Link[T] { return NewLinkIn[T](NewAirs(seed), seed, p) }

// NewLinkIn returns a link like NewLink that shares airs with other links.
func NewLinkIn[T any](airs *Airs, seed uint64, p Params) *Link[T] {
	l := &Link[T]{airs: airs, seed: seed, rand: rand.New(rand.NewPCG(seed, 0x6c696e6b))}
	l.Set(0, p)
	return l
}

// Sent predicts what will happen to a packet. A later Set changes the prediction
// for packets that have not left the transmitter. With wifi nothing can be
// predicted: the times are zero, and a packet with outcome Arrives may still be
// lost.
type Sent struct {
	Outcome Outcome
	Departs time.Duration // when the last bit is on the wire
	Arrives time.Duration // when the first copy arrives
}

// Send sends a packet of size bytes, including the IP header, and returns what will
// happen to it.
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

// packet returns a packet with its random numbers.
func (l *Link[T]) packet(size int, payload T) *packet[T] {
	l.sent++
	l.counts.Sent++
	p := &packet[T]{order: l.sent, size: size, payload: payload}
	// Draw always the same number, so that one parameter does not change the
	// random decisions for others.
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

// accept counts the outcome of a packet that the link has queued.
func (l *Link[T]) accept(p *packet[T]) {
	switch p.outcome {
	case Lost:
		l.counts.Lost++
	case Twice:
		l.counts.Duplicated++
	}
}

// transmit returns when the transmitter will have sent size bytes if it begins at
// start.
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

// Next returns the time of the next event: a packet arrives or, with wifi, the
// station begins or ends a transmission. ok is false if nothing is in flight.
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

// Receive returns a packet that has arrived by now. Packets are returned by time of
// arrival, then in the order of sending.
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

// Params returns the current parameters.
func (l *Link[T]) Params() Params { return l.params }

// Counts returns the counts since the link was created.
func (l *Link[T]) Counts() Counts { return l.counts }

// Free returns when a new packet would be transmitted at once: the transmitter will
// have sent all queued packets, is not stalled, and has its next chance. For a
// station on the air it does not know.
func (l *Link[T]) Free(now time.Duration) time.Duration {
	now = max(now, l.freeAt)
	if p := l.params; p.Trace != nil {
		return l.chances.nextFree(p.Trace, now+p.From) - p.From
	}
	return l.params.stallEnd(now)
}

// Set changes the parameters from now on. Queued packets are sent at the new rate,
// as are the remaining bits of the packet in transmission (all of its bits, if the
// link has or had a trace or wifi). Packets on the wire arrive as before, unless
// the link is cut, which drops all packets in flight. A shorter delay lets new
// packets overtake old ones, as a new route does. Set panics if p.Check fails.
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

// retime computes again when the transmitter sends the queued packets.
func (l *Link[T]) retime(now time.Duration, old Params) {
	free := now
	for i, q := range l.queue {
		q.start = free
		if i == 0 && old.hasRate() && l.params.hasRate() { // part of the packet is transmitted already
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
		at += scale(max(l.params.Delay, time.Millisecond), drawReorderDelay)
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

// overflows reports whether the queue has no room for size bytes. The packet in
// transmission does not count, and an idle transmitter accepts any packet.
func (l *Link[T]) overflows(size int) bool {
	if len(l.queue) == 0 || l.params.Queue == 0 {
		return false
	}
	if l.station != nil {
		return l.bytes+int64(size) > l.params.Queue // packets in the air are not in l.bytes
	}
	return l.bytes-int64(l.queue[0].size)+int64(size) > l.params.Queue
}

// loses advances the Gilbert-Elliott chain and reports whether the packet is lost.
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

// advance removes packets that have left the transmitter from the queue, and runs the air.
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

// drop loses all packets in flight. The caller can still collect those that have
// arrived by now.
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
