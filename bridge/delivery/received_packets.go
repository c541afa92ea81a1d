package delivery

import (
	"time"

	"achbridge/wire"
)

// ReceivedPackets tracks the packets received from the peer and decides when to report them.
// Feedback may use a twentieth of the bytes that it acknowledges, so on a slow link a report
// covers several packets. The end of a large frame, and a packet after a pause, is
// reported at once. For small packets the share may be larger, 20 bytes each: where loss has
// shrunk the transport's window, late feedback delays the packets that follow. Receipts is
// not safe for concurrent use.
type ReceivedPackets struct {
	packets      Recent
	arrived      [64]time.Duration // arrival times of the latest packets, indexed by number modulo 64
	waiting      int               // number of packets with frames that are not reported yet
	since        time.Duration     // when the first unreported packet with frames arrived
	complete     bool              // an unreported packet ended a frame, so its sender waits for a report
	reported     time.Duration     // time of the last report on packets with frames
	repeated     time.Duration     // time of the last report, reminders included
	lastReported uint64            // packets.newest in the last report
	credit       int               // bytes that feedback may use, times feedbackPart
	count        uint64            // packets received, without duplicates
}

const (
	reportPackets  = 16
	mostUnreported = 48 // packets: those beyond the next report's bitmap would count as lost
	reportInterval = 500 * time.Microsecond
	newsInterval   = 50 * time.Millisecond // time after the last report when the next one needs no credit
	reminderAfter  = 250 * time.Millisecond
	feedbackPart   = 20   // bytes of frames that earn one byte of feedback
	smallPacket    = 400  // minimum size, in bytes, that counts for the credit
	feedbackBurst  = 1000 // limit of the credit and of its overdraft, bytes of feedback
	reportBytes    = 100  // size of a report in its own packet, with all headers
	rideBytes      = 40   // size of a report in a packet with frames
	ownHeader      = wire.MaxHeader + HeaderBytes
)

// ReportDelay returns the longest time for which a peer with credit delays a report. rtt is the
// transport's round-trip time.
func ReportDelay(rtt time.Duration) time.Duration { return max(3*time.Millisecond, rtt/8) }

// Cargo is the kind of content of a received packet.
type Cargo int

// The kinds of packets, as far as feedback is concerned.
const (
	Nothing  Cargo = iota // only feedback, which is not acknowledged
	Frames                // whole frames, or parts of frames that are not complete yet
	Complete              // the last part of a frame: its sender waits for the acknowledgement
)

// Received records a packet of size bytes. It reports false for a duplicate.
func (r *ReceivedPackets) Received(now time.Duration, number uint64, size int, cargo Cargo) bool {
	if !r.packets.Add(number) {
		return false
	}
	r.count++
	r.arrived[number%64] = now
	if cargo == Nothing {
		return true
	}
	if r.waiting == 0 {
		r.since = now
	}
	r.waiting++
	r.complete = r.complete || cargo == Complete
	r.credit = min(r.credit+max(size+HeaderBytes, smallPacket), feedbackBurst*feedbackPart)
	return true
}

// Count returns how many packets have arrived, and how many with a number below the newest
// have not arrived.
func (r *ReceivedPackets) Count() (arrived, missing uint64) {
	return r.count, r.packets.newest - min(r.count, r.packets.newest)
}

// Due returns when the next report must be sent: delay after the first packet that it
// covers, or later if the credit requires it. ok is false if no packet is unreported. The end
// of a frame of several parts is reported at once, but at most every 500 µs, because its
// sender waits for the report.
func (r *ReceivedPackets) Due(delay time.Duration) (at time.Duration, ok bool) {
	switch {
	case r.waiting == 0:
		return 0, false
	case r.complete:
		return max(r.since, r.reported+reportInterval), true
	case r.IsFull():
		return r.since, true
	case r.credit < reportBytes*feedbackPart:
		return max(r.since+delay, r.reported+newsInterval), true
	case r.waiting >= reportPackets:
		return r.since, true
	}
	return r.since + delay, true
}

// IsFull reports whether a report must leave before more packets arrive: its bitmap would not cover all of them.
func (r *ReceivedPackets) IsFull() bool { return r.waiting >= mostUnreported }

// News reports whether a packet with frames should also carry a report. That is so if packets
// with frames are unreported and the credit suffices. It is also so newsInterval after the
// last report if any newer packet has arrived. Thus a peer that sends only feedback, which
// needs no acknowledgement, can set its Clock.
func (r *ReceivedPackets) News(now time.Duration) bool {
	return r.waiting > 0 && r.credit >= rideBytes*feedbackPart || r.lastReported != r.packets.newest && now-r.repeated >= newsInterval
}

// Reminder returns when to repeat the last report because nothing has arrived since. ok is
// false before the first packet. The interval is at least the round-trip time rtt, so that reports
// do not fill a slow path, as in a fade. A restarted peer answers a repeated report with a QUIC
// stateless reset; the transport's own keep-alives are too small to cause one.
func (r *ReceivedPackets) Reminder(rtt time.Duration) (at time.Duration, ok bool) {
	return max(r.arrived[r.packets.newest%64], r.repeated) + max(reminderAfter, rtt), r.packets.newest != 0
}

// Report returns a report on the packets received until now, with the arrival times that are
// not reported yet, and counts all of them as reported. frames is the number of bytes of
// frames in the packet that carries the report. ok is false before the first packet.
func (r *ReceivedPackets) Report(now time.Duration, frames int) (f wire.Feedback, ok bool) {
	f.Newest, f.Bitmap, f.Arrived = r.packets.newest, r.packets.bitmap, r.arrived[r.packets.newest%64]
	for back := uint64(1); back < 64 && r.packets.newest-back > r.lastReported && back < r.packets.newest && f.ArrivalCount < wire.MaxArrivals; back++ {
		before := f.Arrived - r.arrived[(r.packets.newest-back)%64]
		if r.packets.bitmap&(1<<(back-1)) == 0 || before < 0 {
			continue
		}
		f.Arrivals[f.ArrivalCount] = wire.Arrival{Back: back, Before: before}
		f.ArrivalCount++
	}
	if r.waiting > 0 { // a reminder does not delay the next report
		r.spend(f, frames)
		r.reported = now
	}
	r.waiting, r.complete, r.repeated, r.lastReported = 0, false, now, r.packets.newest
	return f, r.packets.newest != 0
}

// spend subtracts the cost of f from the credit. Reports that are due whatever the credit
// make it negative, down to feedbackBurst.
func (r *ReceivedPackets) spend(f wire.Feedback, frames int) {
	var buf [wire.MaxFeedback]byte
	cost := len(wire.AppendFeedback(buf[:0], f))
	if frames == 0 {
		cost += ownHeader
	}
	r.credit = max(r.credit-cost*feedbackPart, -feedbackBurst*feedbackPart)
}
