package delivery

import (
	"cmp"
	"slices"
	"time"

	"achbridge/wire"
)

// Piece is the part of one frame that a packet holds: the whole frame, or one part.
type Piece struct {
	Sub   uint32
	Seq   uint64
	Index int // of the part
	Whole bool
}

// Flight keeps account of the packets of one link that carry frames and are not yet
// known to have arrived or to be lost. The owner records every packet it sends and
// passes in the peer's feedback; Flight returns which pieces arrived and which are lost.
// Not safe for concurrent use. In steady state it allocates nothing.
type Flight struct {
	packets []packet // in order of number; packets[0] is the oldest open one
	next    uint64   // number given last
	bytes   int
	held    int                // bytes in flight when news came last, and all sent since
	left    [256]time.Duration // when the latest packets left, by number

	srtt, rttvar time.Duration
	least        least         // round trip
	guessed      bool          // they are what Begin was told
	late         time.Duration // how long the peer holds an acknowledgement back
	sampled      uint64        // newest packet that a round trip was taken from
	waiting      bool          // for the first answer to what was sent since unheard
	unheard      time.Duration // since when nothing new was heard, while waiting
	tried        time.Duration // since when packets have left on end and none was answered, while waiting
	asked        time.Duration // when the latest packet left
	width        pathWidth
	sent, lost   uint64  // packets with frames, and those of them that did not arrive as far as is known
	out          Outcome // what is returned, kept for its memory
}

type packet struct {
	number uint64
	size   int
	width  int // bytes of its datagram
	sent   time.Duration
	state  packetState
	pieces []Piece
}

type packetState uint8

const (
	closed  packetState = iota // its fate is known
	open                       // on its way
	expired                    // taken for lost because nothing was heard; it may still turn out to have arrived
)

const (
	// reorderLimit is the number of later packets that must have arrived before a missing one counts as lost (RFC 9002, 6.1.1).
	reorderLimit = 3
	// feedbackDelay is how long a peer that has credit for feedback holds it back, with margin for its timer.
	feedbackDelay = LeastTimeout
	timerMargin   = 10 * time.Millisecond
	initialRTO    = 500 * time.Millisecond
	// overhead is what the transport adds to a packet, in bytes.
	overhead = 40
	// forgetAfter is how long an acknowledgement of an expired packet is still of use.
	forgetAfter = 5 * time.Second
)

// LeastTimeout is how long a packet takes at least until it counts as lost.
const LeastTimeout = 15 * time.Millisecond

// NextNumber returns the number of the link's next packet. Every packet takes one, with
// frames or with feedback alone.
func (f *Flight) NextNumber(now time.Duration) uint64 {
	f.next++
	f.left[f.next%uint64(len(f.left))] = now
	return f.next
}

// SentAt returns when packet number left; ok is false when that is too long ago.
func (f *Flight) SentAt(number uint64) (at time.Duration, ok bool) {
	if number == 0 || number > f.next || f.next-number >= uint64(len(f.left)) {
		return 0, false
	}
	return f.left[number%uint64(len(f.left))], true
}

// Sent records a packet that left at now: a datagram of width bytes and what left on
// streams with it, size bytes together. It copies pieces.
func (f *Flight) Sent(now time.Duration, number uint64, size, width int, pieces []Piece) {
	if !f.waiting {
		f.waiting, f.unheard, f.tried = true, now, now
	}
	if now-f.asked >= f.patience() {
		f.tried = now
	}
	f.asked = now
	if n := len(f.packets); n < cap(f.packets) {
		f.packets = f.packets[:n+1]
	} else {
		f.packets = append(f.packets, packet{})
	}
	p := &f.packets[len(f.packets)-1]
	p.number, p.size, p.width, p.sent, p.state = number, size, width, now, open
	p.pieces = append(p.pieces[:0], pieces...)
	f.sent++
	f.bytes += size
	f.held += size + overhead
}

// Feedback processes one report of the peer. The peer held it back for held after its
// newest packet had arrived.
func (f *Flight) Feedback(now, held time.Duration, r wire.Feedback) Outcome {
	f.out.Arrived, f.out.Lost, f.out.Deliveries, f.out.LostPackets = f.out.Arrived[:0], f.out.Lost[:0], f.out.Deliveries[:0], 0
	f.out.Resumed = false
	if r.Newest > f.next {
		return f.out // about packets that never left
	}
	if sent, ok := f.SentAt(r.Newest); ok && r.Newest > f.sampled {
		f.sampled = r.Newest
		f.sample(now, now-sent-max(held, 0))
	}
	silent, heard := f.Silent(now), false
	for i := range f.packets {
		p := &f.packets[i]
		if p.state == closed || p.number > r.Newest {
			continue
		}
		back := r.Newest - p.number
		switch {
		case back == 0 || back <= 64 && r.Bitmap&(1<<(back-1)) != 0:
			f.unheard, f.tried, heard = now, now, true
			if p.state == expired {
				f.lost--
			}
			f.width.arrived(p.sent, p.width)
			f.out.Arrived = append(f.out.Arrived, p.pieces...)
			f.delivery(p, r, now-max(held, 0))
			f.settle(p, closed)
		case p.state == open && back >= reorderLimit:
			f.out.Lost = append(f.out.Lost, p.pieces...)
			f.out.LostPackets++
			f.lost++
			f.width.lost(p.sent, p.width)
			f.settle(p, closed)
		}
	}
	if len(f.out.Deliveries) > 0 {
		late := time.Duration(0)
		for _, d := range f.out.Deliveries {
			late = max(late, now-d.Sent-d.RTT)
		}
		f.late = max(late, f.late-(f.late-late)/8)
	}
	slices.SortFunc(f.out.Deliveries, func(a, b Delivery) int { return cmp.Compare(a.Arrived, b.Arrived) })
	f.drop()
	if heard {
		f.held = f.bytes
	}
	f.waiting = f.waiting && (!heard || f.bytes > 0)
	f.out.Resumed = silent && !f.Silent(now)
	return f.out
}

// delivery notes when packet p arrived, if r tells. The newest one's report would
// be here at prompt, had the peer not held it back.
func (f *Flight) delivery(p *packet, r wire.Feedback, prompt time.Duration) {
	d := Delivery{Size: p.size, Sent: p.sent, Arrived: r.Arrived, RTT: prompt - p.sent}
	if back := r.Newest - p.number; back != 0 {
		i := slices.IndexFunc(r.Arrivals[:r.ArrivalCount], func(a wire.Arrival) bool { return a.Back == back })
		if i < 0 {
			return
		}
		d.Arrived -= r.Arrivals[i].Before
		d.RTT -= r.Arrivals[i].Before
	}
	if d.RTT >= 0 { // else a host was suspended in between, as for sample
		f.out.Deliveries = append(f.out.Deliveries, d)
	}
}

// Expire returns the pieces of packets that were not answered for so long that they
// count as lost. The slice is valid until the next call.
func (f *Flight) Expire(now time.Duration) (lost []Piece) {
	f.out.Lost = f.out.Lost[:0]
	for i := range f.packets {
		switch p := &f.packets[i]; {
		case p.state == open && now-p.sent >= f.timeout():
			f.out.Lost = append(f.out.Lost, p.pieces...)
			f.lost++
			f.width.lost(p.sent, p.width)
			f.settle(p, expired)
		case p.state == expired && now-p.sent >= forgetAfter:
			f.settle(p, closed)
		}
	}
	f.drop()
	return f.out.Lost
}

// NextExpiry returns when Expire must be called next; ok is false when nothing is in
// flight.
func (f *Flight) NextExpiry() (at time.Duration, ok bool) {
	for i := range f.packets {
		if f.packets[i].state == open {
			return f.packets[i].sent + f.timeout(), true
		}
	}
	return 0, false
}

// Count returns how many packets with frames were sent, and how many of them are known
// to be lost.
func (f *Flight) Count() (sent, lost uint64) { return f.sent, f.lost }

// Bytes returns the size of all packets in flight.
func (f *Flight) Bytes() int { return f.bytes }

// Narrow reports that the path now carries small packets only.
func (f *Flight) Narrow(now time.Duration) bool { return f.width.narrow(now) }

// Held returns how many bytes the transport may still count as in flight. The transport,
// unlike Flight, gives no packet up while it hears nothing.
func (f *Flight) Held() int { return f.held }

// Late returns for how long word has been missing of the first packet that left after the
// newest one known to have arrived. Packets keep their order, but for a few, so that those
// behind it are on the way too. It is negative until word is due, and when none is.
func (f *Flight) Late(now time.Duration) time.Duration {
	i, _ := slices.BinarySearchFunc(f.packets, f.sampled+1, func(p packet, number uint64) int { return cmp.Compare(p.number, number) })
	for ; i < len(f.packets); i++ {
		if p := &f.packets[i]; p.state != closed && f.srtt != 0 {
			return now - p.sent - f.least.value() - f.late
		}
	}
	return -1
}

// Overdue reports that no answer has come for so long that packets must be lost.
func (f *Flight) Overdue(now time.Duration) bool {
	return f.waiting && now-f.unheard >= f.timeout()
}

// RTT returns the smoothed round-trip time and the least of the last ten to twenty
// seconds, zero before the first sample.
func (f *Flight) RTT() (smoothed, least time.Duration) { return f.srtt, f.least.value() }

// Longer records that the path has become longer by that much.
func (f *Flight) Longer(by time.Duration) { f.least.longer(by) }

// Reported returns the longest time for which the peer lately held a report back.
func (f *Flight) Reported() time.Duration { return f.late }

// Silent reports that the path has not answered for max(300 ms, 4 RTT) although an
// answer was due.
func (f *Flight) Silent(now time.Duration) bool {
	return f.waiting && now-f.unheard >= f.patience()
}

// Unanswered reports that the peer has acknowledged nothing since then, although packets
// were sent for max(300 ms, 4 RTT) on end and still are. Silent can mean one lost
// packet; Unanswered means a path that carries nothing.
func (f *Flight) Unanswered(now time.Duration) (since time.Duration, ok bool) {
	return f.tried, f.waiting && f.asked-f.tried >= f.patience() && now-f.asked < f.patience()
}

func (f *Flight) patience() time.Duration { return max(300*time.Millisecond, 4*f.srtt) }

// Begin sets the round trip that the transport's handshake took, 0 if unknown. It counts
// until the first packet is answered, because it includes the wait for handshake packets
// that were lost.
func (f *Flight) Begin(rtt time.Duration) {
	if rtt > 0 {
		f.srtt, f.rttvar, f.least, f.guessed = rtt, rtt/2, least{now: rtt}, true
	}
}

func (f *Flight) timeout() time.Duration {
	if f.srtt == 0 {
		return initialRTO
	}
	return f.srtt + 4*f.rttvar + max(feedbackDelay, f.late+timerMargin)
}

// sample smooths the round trip as RFC 9002, 5.3 does. One that is less than
// nothing is none: our clock stood still for a part of it, or the peer is wrong
// about how long it held the report back.
func (f *Flight) sample(now, rtt time.Duration) {
	if rtt < 0 {
		return
	}
	f.least.note(now, rtt)
	if f.srtt == 0 || f.guessed {
		f.srtt, f.rttvar, f.guessed = rtt, rtt/2, false
		return
	}
	f.rttvar += (max(f.srtt-rtt, rtt-f.srtt) - f.rttvar) / 4
	f.srtt += (rtt - f.srtt) / 8
}

func (f *Flight) settle(p *packet, state packetState) {
	if p.state == open {
		f.bytes -= p.size
	}
	p.state = state
}

// drop forgets the settled packets, also those behind one that may stay open for
// long. They go to the end, where the memory of their pieces is used again.
func (f *Flight) drop() {
	n := 0
	for i := range f.packets {
		if f.packets[i].state == closed {
			continue
		}
		if n != i {
			f.packets[n], f.packets[i] = f.packets[i], f.packets[n]
		}
		n++
	}
	f.packets = f.packets[:n]
}

// Carries reports whether a piece of subscription sub is in flight.
func (f *Flight) Carries(sub uint32) bool {
	for i := range f.packets {
		if f.packets[i].state == open && slices.ContainsFunc(f.packets[i].pieces, func(p Piece) bool { return p.Sub == sub }) {
			return true
		}
	}
	return false
}
