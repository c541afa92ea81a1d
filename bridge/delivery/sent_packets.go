package delivery

import (
	"cmp"
	"slices"
	"time"

	"achbridge/wire"
)

// Piece identifies what a packet carries of one frame: the whole frame, or one of its parts.
type Piece struct {
	Sub   uint32
	Seq   uint64
	Index int // index of the part, 0 for a whole frame
	Whole bool
}

// SentPackets tracks the packets of one link that carry frames and are neither acknowledged nor
// lost. The owner records every packet that it sends and passes in the peer's feedback.
// Flight then returns which pieces arrived and which are lost. It is not safe for
// concurrent use. In steady state it does not allocate.
type SentPackets struct {
	packets   []packet // sorted by number; packets[0] is the oldest that is not settled
	next      uint64   // last packet number assigned
	bytes     int
	cwndUsed  int                // bytes in flight after the last new acknowledgement, plus all bytes sent since
	sendTimes [256]time.Duration // send times of the latest packets, indexed by number modulo 256

	srtt, rttvar time.Duration
	least        least         // minimum round-trip time
	guessed      bool          // srtt, rttvar and least hold the handshake's round trip, set by Begin
	ackDelay     time.Duration // recent maximum of the time for which the peer delayed an acknowledgement
	sampled      uint64        // newest packet that gave a round-trip sample
	waiting      bool          // packets sent since unheard have no new acknowledgement yet
	unheard      time.Duration // while waiting: when the wait for a new acknowledgement began
	tried        time.Duration // while waiting: since when packets were sent continuously without a new acknowledgement
	lastSentAt   time.Duration // when the latest packet was sent
	width        pathWidth
	sent, lost   uint64  // packets with frames, and how many of them are currently considered lost
	out          Outcome // result of the last call; its slices are reused
}

type packet struct {
	number uint64
	size   int
	width  int // size of its datagram, bytes
	sent   time.Duration
	state  packetState
	pieces []Piece
}

type packetState uint8

const (
	closed  packetState = iota // acknowledged, lost or forgotten
	open                       // in flight
	expired                    // considered lost after a timeout; the peer may still acknowledge it
)

const (
	// reorderLimit is the number of later packets that must have arrived before a missing one counts as lost (RFC 9002, 6.1.1).
	reorderLimit = 3
	// feedbackDelay is the longest time for which a peer with credit delays its feedback, with margin for its timer.
	feedbackDelay = LeastTimeout
	timerMargin   = 10 * time.Millisecond
	initialRTO    = 500 * time.Millisecond
	// overhead is the number of bytes that the transport adds to a packet.
	overhead = 40
	// forgetAfter is the age at which an expired packet is forgotten: a later acknowledgement has no effect.
	forgetAfter = 5 * time.Second
)

// LeastTimeout is the minimum allowance, beyond the round trip and its variation, before an
// unacknowledged packet counts as lost.
const LeastTimeout = 15 * time.Millisecond

// NextNumber returns the number of the link's next packet and records now as its send time.
// Every packet needs a number, also one that carries only feedback.
func (f *SentPackets) NextNumber(now time.Duration) uint64 {
	f.next++
	f.sendTimes[f.next%uint64(len(f.sendTimes))] = now
	return f.next
}

// SentAt returns when packet number was sent. ok is false if the number was not assigned, or
// is not among the latest 256.
func (f *SentPackets) SentAt(number uint64) (at time.Duration, ok bool) {
	if number == 0 || number > f.next || f.next-number >= uint64(len(f.sendTimes)) {
		return 0, false
	}
	return f.sendTimes[number%uint64(len(f.sendTimes))], true
}

// Sent records a packet sent at now. width is the size of its datagram, and size also counts
// the bytes sent on streams with it. Sent copies pieces.
func (f *SentPackets) Sent(now time.Duration, number uint64, size, width int, pieces []Piece) {
	if !f.waiting {
		f.waiting, f.unheard, f.tried = true, now, now
	}
	if now-f.lastSentAt >= f.patience() {
		f.tried = now
	}
	f.lastSentAt = now
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
	f.cwndUsed += size + overhead
}

// Feedback processes one report of the peer. held is the time for which the peer delayed the
// report after the newest acknowledged packet had arrived.
func (f *SentPackets) Feedback(now, held time.Duration, r wire.Feedback) Outcome {
	f.out.Arrived, f.out.Lost, f.out.Deliveries, f.out.LostPackets = f.out.Arrived[:0], f.out.Lost[:0], f.out.Deliveries[:0], 0
	f.out.Resumed = false
	if r.Newest > f.next {
		return f.out // acknowledges packets that were never sent
	}
	if sent, ok := f.SentAt(r.Newest); ok && r.Newest > f.sampled {
		f.sampled = r.Newest
		f.sample(now, now-sent-max(held, 0))
	}
	silent, isFirst := f.Silent(now), false
	for i := range f.packets {
		p := &f.packets[i]
		if p.state == closed || p.number > r.Newest {
			continue
		}
		back := r.Newest - p.number
		switch {
		case back == 0 || back <= 64 && r.Bitmap&(1<<(back-1)) != 0:
			f.unheard, f.tried, isFirst = now, now, true
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
		f.ackDelay = max(late, f.ackDelay-(f.ackDelay-late)/8)
	}
	slices.SortFunc(f.out.Deliveries, func(a, b Delivery) int { return cmp.Compare(a.Arrived, b.Arrived) })
	f.drop()
	if isFirst {
		f.cwndUsed = f.bytes
	}
	f.waiting = f.waiting && (!isFirst || f.bytes > 0)
	f.out.Resumed = silent && !f.Silent(now)
	return f.out
}

// delivery adds a Delivery for packet p, if report r has the packet's arrival time. prompt is
// when the report would have arrived if the peer had not delayed it.
func (f *SentPackets) delivery(p *packet, r wire.Feedback, prompt time.Duration) {
	d := Delivery{Size: p.size, Sent: p.sent, Arrived: r.Arrived, RTT: prompt - p.sent}
	if back := r.Newest - p.number; back != 0 {
		i := slices.IndexFunc(r.Arrivals[:r.ArrivalCount], func(a wire.Arrival) bool { return a.Back == back })
		if i < 0 {
			return
		}
		d.Arrived -= r.Arrivals[i].Before
		d.RTT -= r.Arrivals[i].Before
	}
	if d.RTT >= 0 { // negative if a host was suspended meanwhile, see sample
		f.out.Deliveries = append(f.out.Deliveries, d)
	}
}

// Expire returns the pieces of packets whose acknowledgement timed out, and counts these
// packets as lost. The slice is valid until the next call.
func (f *SentPackets) Expire(now time.Duration) (lost []Piece) {
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

// NextExpiry returns when Expire must be called next. ok is false if no packet is in flight.
func (f *SentPackets) NextExpiry() (at time.Duration, ok bool) {
	for i := range f.packets {
		if f.packets[i].state == open {
			return f.packets[i].sent + f.timeout(), true
		}
	}
	return 0, false
}

// Newest returns the number of the newest packet. It is the count of all packets sent, with and without frames.
func (f *SentPackets) Newest() uint64 { return f.next }

// Count returns how many packets with frames were sent, and how many of them are
// considered lost.
func (f *SentPackets) Count() (sent, lost uint64) { return f.sent, f.lost }

// Bytes returns the size of all packets in flight.
func (f *SentPackets) Bytes() int { return f.bytes }

// Narrow reports whether the path is a PMTU black hole: it now carries small packets only.
func (f *SentPackets) Narrow(now time.Duration) bool { return f.width.narrow(now) }

// Held returns how many bytes the transport may still count as in flight. Unlike Flight, the
// transport declares no packet lost while it receives no acknowledgement.
func (f *SentPackets) Held() int { return f.cwndUsed }

// Late returns how long the acknowledgement of the first packet after the newest one with a
// round-trip sample is overdue. Packets are rarely reordered, so later packets are then
// missing too. The result is negative if no acknowledgement is due.
func (f *SentPackets) Late(now time.Duration) time.Duration {
	i, _ := slices.BinarySearchFunc(f.packets, f.sampled+1, func(p packet, number uint64) int { return cmp.Compare(p.number, number) })
	for ; i < len(f.packets); i++ {
		if p := &f.packets[i]; p.state != closed && f.srtt != 0 {
			return now - p.sent - f.least.value() - f.ackDelay
		}
	}
	return -1
}

// Overdue reports whether no new acknowledgement has arrived for a whole loss timeout, so
// that packets must be lost.
func (f *SentPackets) Overdue(now time.Duration) bool {
	return f.waiting && now-f.unheard >= f.timeout()
}

// RTT returns the smoothed round-trip time, and the least one of the last ten to twenty
// seconds. Both are zero before Begin and the first sample.
func (f *SentPackets) RTT() (smoothed, least time.Duration) { return f.srtt, f.least.value() }

// Longer records that the round trip of the path has become longer by this time.
func (f *SentPackets) Longer(by time.Duration) { f.least.longer(by) }

// AckDelay returns the longest time for which the peer recently delayed an acknowledgement.
func (f *SentPackets) AckDelay() time.Duration { return f.ackDelay }

// Silent reports whether packets await acknowledgement and no new one has arrived for
// max(300 ms, 4 RTT).
func (f *SentPackets) Silent(now time.Duration) bool {
	return f.waiting && now-f.unheard >= f.patience()
}

// Unanswered returns ok if the peer has acknowledged nothing new since the returned time,
// although packets were sent continuously for max(300 ms, 4 RTT) and still are. Silent can
// mean one lost packet; Unanswered means that the path carries nothing.
func (f *SentPackets) Unanswered(now time.Duration) (since time.Duration, ok bool) {
	return f.tried, f.waiting && f.lastSentAt-f.tried >= f.patience() && now-f.lastSentAt < f.patience()
}

func (f *SentPackets) patience() time.Duration { return max(300*time.Millisecond, 4*f.srtt) }

// Begin sets the round-trip time of the transport's handshake, 0 if unknown. The first
// acknowledgement replaces it, because it may include timeouts of lost handshake packets.
func (f *SentPackets) Begin(rtt time.Duration) {
	if rtt > 0 {
		f.srtt, f.rttvar, f.least, f.guessed = rtt, rtt/2, least{now: rtt}, true
	}
}

func (f *SentPackets) timeout() time.Duration {
	if f.srtt == 0 {
		return initialRTO
	}
	return f.srtt + 4*f.rttvar + max(feedbackDelay, f.ackDelay+timerMargin)
}

// sample smooths the round-trip time as RFC 9002, 5.3 does. It ignores a negative sample:
// the host was suspended meanwhile, or the peer misreported the delay of its report.
func (f *SentPackets) sample(now, rtt time.Duration) {
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

func (f *SentPackets) settle(p *packet, state packetState) {
	if p.state == open {
		f.bytes -= p.size
	}
	p.state = state
}

// drop removes all closed packets, also those sent after one that is still open. It moves
// them behind the end of the slice, so that Sent reuses the memory of their pieces.
func (f *SentPackets) drop() {
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
func (f *SentPackets) Carries(sub uint32) bool {
	for i := range f.packets {
		if f.packets[i].state == open && slices.ContainsFunc(f.packets[i].pieces, func(p Piece) bool { return p.Sub == sub }) {
			return true
		}
	}
	return false
}
