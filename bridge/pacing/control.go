package pacing

import (
	"time"

	"achbridge/bridge/delivery"
)

// Control decides when the packets of a link may leave. Pacer is the one that links use.
type Control interface {
	// May reports whether a packet with size bytes of cargo may leave, and if not, when to ask
	// again: in the far future if only feedback can change the answer.
	May(now time.Duration, cargo Cargo, size int) (ok bool, again time.Duration)
	// Waiting says whether frames or a load test wait since the latest answer of May.
	Waiting(now time.Duration, waits bool)
	// Sent records a packet of size bytes that leaves at now. The packet is in flight already.
	Sent(now time.Duration, cargo Cargo, size int)
	// Feedback processes what a report of the peer says of packets in flight.
	Feedback(now time.Duration, out delivery.Outcome)
	// Drained reports that what leaves now waits behind nothing.
	Drained() bool
	// Rate is the estimate of the path's rate, in bytes a second.
	Rate() float64
	// Path is what the path delivered when it was last full, in bytes a second; 0 if unknown.
	Path() float64
}

// Cargo is what a packet carries.
type Cargo int

// The kinds of cargo.
const (
	Whole  Cargo = iota // frames that fit into one packet
	Parts               // a part of a large frame, or of a load test
	Behind              // the same while whole frames of a higher priority leave, which would wait behind it
	Probe               // nothing: it asks for an answer on a path that does not answer
)

// Transport is what a Pacer asks the session of its link.
type Transport interface {
	Window() int        // bytes that it lets be in flight
	Heard() uint64      // packets that it has received
	RTT() time.Duration // smoothed round trip
}

// NewPacer returns a Pacer for what packets records and t transports. The caller guards packets.
func NewPacer(packets *delivery.Flight, t Transport) Control {
	return &Pacer{packets: packets, transport: t}
}

// SmallFrame is the size in bytes below which cargo is small: it may leave timerGrain early, on
// credit.
const SmallFrame = 300

// ProbeInterval is how often a silent path is tried.
const ProbeInterval = 50 * time.Millisecond

const (
	// slowProbes is how often a silent path is tried if the transport's window is full and
	// nothing was heard since the last try.
	slowProbes = 250 * time.Millisecond
	// windowReserve is the share of the transport's window that parts leave to whole frames,
	// which would else wait for feedback on a part.
	windowReserve = 16
	// timerGrain is how late the timers of a real host fire.
	timerGrain = time.Millisecond
	// lossBurst is how many packets must be lost at once to mean congestion.
	lossBurst = 8
	// drainedBelow is how many packets of room Drained wants: the frame is copied now, and its
	// first packet must not wait.
	drainedBelow = 5
	never        = time.Hour
)

// May implements Control. A silent path is only tried, without frames once half of the
// transport's window has left unanswered: the transport counts a packet as in flight until it
// is heard of, and with a full window only the transport's own timer would find the path again,
// as late as half the cut was long.
func (p *Pacer) May(now time.Duration, cargo Cargo, size int) (ok bool, again time.Duration) {
	theirs, parts := p.transport.Window(), cargo == Parts || cargo == Behind
	if parts {
		theirs -= theirs / windowReserve
	}
	fits := p.packets.Held()+size <= theirs/2
	if p.packets.Silent(now) || !fits && p.packets.Overdue(now) {
		interval := ProbeInterval
		if p.packets.Held()+SmallFrame > theirs && p.transport.Heard() == p.answers {
			interval = slowProbes // a probe would wait in the transport
		}
		if at := max(p.left+interval, p.nextWhole(now)); now < at {
			return false, min(at, now+ProbeInterval) // ask then whether the transport has heard
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
	case !parts && p.stalls.known && now < p.nextWhole(now):
		p.limits = false // it is the path that they wait for
		return false, p.nextWhole(now)
	case full:
		return false, now + never
	}
	p.limits = true
	at := p.Next(now)
	return at <= now || size <= SmallFrame && at-now < timerGrain, at
}

// window is how many bytes may be in flight.
func (p *Pacer) window(now time.Duration, cargo Cargo) int {
	_, least := p.packets.RTT()
	delay := max(delivery.ReportDelay(p.transport.RTT()), p.packets.Reported())
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

// Waiting implements Control. While the pacer does not limit what waits, it learns nothing
// about what the path could carry.
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
		p.parted = now
	case Whole:
		if now != p.wholeAt {
			p.gap = p.nextWhole(now) - p.wholeAt
		}
		p.wholeAt = now
	}
	p.spend(now, size)
	p.answers = p.transport.Heard()
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

// Drained implements Control: no more is in flight than the path carries in a round trip.
func (p *Pacer) Drained() bool {
	_, least := p.packets.RTT()
	return p.packets.Bytes() <= p.UrgentWindow(least, 0)-drainedBelow*packetBytes
}
