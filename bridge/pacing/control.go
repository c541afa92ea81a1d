package pacing

import (
	"time"

	"achbridge/bridge/delivery"
)

// Control decides when the packets of a link may be sent. Links use Pacer.
type Control interface {
	// May reports whether a packet with size bytes of cargo may be sent, and if not, when to call
	// May again. That is in the far future if only feedback can change the result.
	May(now time.Duration, cargo Cargo, size int) (ok bool, again time.Duration)
	// Waiting records whether frames or a load test have been waiting since the last call of May.
	Waiting(now time.Duration, waits bool)
	// Sent records a packet of size bytes that is sent at now. The caller has already added it to
	// the packets in flight.
	Sent(now time.Duration, cargo Cargo, size int)
	// Feedback processes the outcome of one report of the peer.
	Feedback(now time.Duration, out delivery.Outcome)
	// Drained reports whether a packet sent now would find no queue on the path.
	Drained() bool
	// Rate returns the estimated rate of the path, in bytes a second.
	Rate() float64
	// Path returns the delivery rate when the path was last full, in bytes a second; 0 if unknown.
	Path() float64
}

// Cargo is the kind of content of a packet to be sent.
type Cargo int

// The kinds of cargo.
const (
	Whole  Cargo = iota // frames that fit into one packet
	Parts               // a part of a large frame, or of a load test
	Behind              // Parts while whole frames of a higher priority are sent, which would queue behind them
	Probe               // no frames: it requests feedback on a silent path
)

// Transport is the part of a link's session that a Pacer needs.
type Transport interface {
	Window() int             // congestion window, bytes
	ReceivedPackets() uint64 // number of packets received
	RTT() time.Duration      // smoothed round trip
}

// NewPacer returns a Pacer for the packets in flight and the transport of a link. Its calls
// need the lock that guards packets.
func NewPacer(packets *delivery.SentPackets, t Transport) Control {
	return &Pacer{packets: packets, transport: t}
}

// SmallFrame is the expected size, in bytes, of cargo that leaves most of a packet free.
const SmallFrame = 300

// ProbeInterval is the interval of the probes on a silent path.
const ProbeInterval = 50 * time.Millisecond

const (
	// slowProbes is the interval of the probes if the transport's window is full and the
	// transport has received nothing since the last packet.
	slowProbes = 250 * time.Millisecond
	// windowReserve is the divisor of the transport's window that gives the share reserved for
	// whole frames. Without it they would wait for feedback on parts.
	windowReserve = 16
	// lossBurst is the number of packets lost at once that means congestion.
	lossBurst = 8
	// drainedBelow is the margin of Drained, in packets. The frame is copied after Drained, and
	// its first packet must not wait.
	drainedBelow = 5
	never        = time.Hour
)

// May implements Control. A silent path is only probed. Probes carry no frames once half of
// the transport's window is unacknowledged. The transport counts packets as in flight until
// they are acknowledged. With a full window only the transport's own timer would find the
// path again, after up to half the length of the interruption.
func (p *Pacer) May(now time.Duration, cargo Cargo, size int) (ok bool, again time.Duration) {
	theirs, parts := p.transport.Window(), cargo == Parts || cargo == Behind
	if parts {
		theirs -= theirs / windowReserve
	}
	fits := p.packets.Held()+size <= theirs/2
	if p.packets.Silent(now) || !fits && p.packets.Overdue(now) {
		interval := ProbeInterval
		if p.packets.Held()+SmallFrame > theirs && p.transport.ReceivedPackets() == p.receivedBefore {
			interval = slowProbes // a probe would wait in the transport
		}
		if at := max(p.sentAt+interval, p.nextWhole(now)); now < at {
			return false, min(at, now+ProbeInterval) // check again then whether the transport has received packets
		}
		return fits || cargo == Probe, now + interval
	}
	if cargo == Probe {
		return false, now + never
	}
	ours := p.window(now, cargo)
	full := p.packets.Bytes()+size > min(theirs, ours)
	p.limits = ours <= theirs
	switch {
	case p.packets.Bytes() == 0:
	case !parts && p.stalls.isKnown && now < p.nextWhole(now):
		p.limits = false // the path limits whole frames, not the pacer
		return false, p.nextWhole(now)
	case full:
		return false, now + never
	}
	p.limits = true
	at := p.Next(now)
	return at <= now, at
}

// window returns how many bytes may be in flight for this cargo.
func (p *Pacer) window(now time.Duration, cargo Cargo) int {
	_, least := p.packets.RTT()
	delay := max(delivery.ReportDelay(p.transport.RTT()), p.packets.AckDelay())
	filling := p.Filling(now)
	switch {
	case cargo == Behind && filling:
		return p.UrgentWindow(least, delay)
	case cargo == Parts || cargo == Behind:
		return p.PartWindow(least, delay)
	case filling:
		return p.PartWindow(least, delay) + packetBytes
	}
	return p.Window(least, delay)
}

// Waiting implements Control. While the pacer does not limit waiting frames, it learns nothing
// about the capacity of the path.
func (p *Pacer) Waiting(now time.Duration, waits bool) {
	if waits && p.limits {
		p.Hold(now)
	} else {
		p.Free(now)
	}
}

// Sent implements Control.
func (p *Pacer) Sent(now time.Duration, cargo Cargo, size int) {
	switch cargo {
	case Parts:
		p.partSentAt = now
	case Whole:
		if now != p.wholeAt {
			p.gap = p.nextWhole(now) - p.wholeAt
		}
		p.wholeAt = now
	}
	p.spend(now, size)
	p.receivedBefore = p.transport.ReceivedPackets()
}

// Feedback implements Control.
func (p *Pacer) Feedback(now time.Duration, out delivery.Outcome) {
	if out.Resumed {
		p.Resumed(now)
	}
	_, least := p.packets.RTT()
	p.packets.Longer(p.Delivered(now, out.Deliveries, least))
	if out.LostPackets >= lossBurst {
		p.Lost(now)
	}
}

// Drained implements Control. It reports whether no more is in flight than the path carries in
// a round trip.
func (p *Pacer) Drained() bool {
	_, least := p.packets.RTT()
	return p.packets.Bytes() <= p.UrgentWindow(least, 0)-drainedBelow*packetBytes
}
