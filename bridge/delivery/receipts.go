package delivery

import (
	"time"

	"achbridge/wire"
)

// Receipts keeps account of the peer's packets that arrived and says when the
// peer must be told. Feedback takes a twentieth of the bytes that it answers, so
// on a slow link a report tells of several packets; but the end of a large frame,
// and what comes after a pause, is told at once. Small packets may cost more than
// a twentieth, 20 bytes each: where loss has shrunk the transport's window, late
// word of them holds up the next ones. Not safe for concurrent use.
type Receipts struct {
	packets  Recent
	arrived  [64]time.Duration // when the latest arrived, by number
	waiting  int               // packets with frames that no report has told of yet
	since    time.Duration
	complete bool          // one of them ended a frame: its sender waits for us
	reported time.Duration // when packets with frames were last told of
	repeated time.Duration // when anything was
	told     uint64        // packets.newest as the last report had it
	credit   int           // bytes that feedback may take, times feedbackPart
	count    uint64        // packets that arrived
}

const (
	reportPackets  = 16
	mostUnreported = 48 // packets: what is not in the next bitmap counts as lost
	reportInterval = 500 * time.Microsecond
	newsInterval   = 50 * time.Millisecond // a report so long after the last one needs no credit
	reminderAfter  = 250 * time.Millisecond
	feedbackPart   = 20   // bytes of frames that allow for one of feedback ...
	smallPacket    = 400  // bytes: no packet counts as less
	feedbackBurst  = 1000 // bytes of feedback that may be saved up, or owed
	reportBytes    = 100  // of a report that travels alone, with all headers
	rideBytes      = 40   // of one that rides along with frames
	ownHeader      = wire.MaxHeader + HeaderBytes
)

// ReportDelay is how long a report is held back at most by a peer that has credit for it; rtt is
// the transport's.
func ReportDelay(rtt time.Duration) time.Duration { return max(3*time.Millisecond, rtt/8) }

// Cargo says what a packet brought.
type Cargo int

// The kinds of packets, as far as feedback is concerned.
const (
	Nothing  Cargo = iota // only feedback: it asks for no answer
	Frames                // frames, or parts of such as are not complete yet
	Complete              // the last part of a frame: its sender waits for the acknowledgement
)

// Received records a packet of size bytes. It reports false for a duplicate.
func (r *Receipts) Received(now time.Duration, number uint64, size int, cargo Cargo) bool {
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

// Count returns how many packets have arrived, and how many with numbers below the
// newest have not.
func (r *Receipts) Count() (arrived, missing uint64) {
	return r.count, r.packets.newest - min(r.count, r.packets.newest)
}

// Due returns when the next report must leave: delay after the first packet that it
// covers, or later when the credit requires it; ok is false when the peer knows
// everything. The end of a frame of several parts is reported at once, at most every 500
// µs, because its sender holds back the channel's next frame until then.
func (r *Receipts) Due(delay time.Duration) (at time.Duration, ok bool) {
	switch {
	case r.waiting == 0:
		return 0, false
	case r.complete:
		return max(r.since, r.reported+reportInterval), true
	case r.waiting >= mostUnreported:
		return r.since, true
	case r.credit < reportBytes*feedbackPart:
		return max(r.since+delay, r.reported+newsInterval), true
	case r.waiting >= reportPackets:
		return r.since, true
	}
	return r.since + delay, true
}

// News reports that a report should ride along with frames: it would tell
// something, and either the credit allows it or the last one was some time ago,
// so that a peer whose packets are all feedback, which asks for no answer, can
// set its Clock.
func (r *Receipts) News(now time.Duration) bool {
	return r.waiting > 0 && r.credit >= rideBytes*feedbackPart || r.told != r.packets.newest && now-r.repeated >= newsInterval
}

// Reminder returns when to repeat the last report because nothing has come since; ok is
// false before the first packet. A restarted peer answers it with a QUIC stateless
// reset; the transport's own keep-alives are too small to cause one.
func (r *Receipts) Reminder() (at time.Duration, ok bool) {
	return max(r.arrived[r.packets.newest%64], r.repeated) + reminderAfter, r.packets.newest != 0
}

// Report returns the report for now, in a packet that has that many bytes of frames:
// what arrived, and the arrival times that no report has had yet. It counts them as
// reported. ok is false before the first packet.
func (r *Receipts) Report(now time.Duration, frames int) (f wire.Feedback, ok bool) {
	f.Newest, f.Bitmap, f.Arrived = r.packets.newest, r.packets.bitmap, r.arrived[r.packets.newest%64]
	for back := uint64(1); back < 64 && r.packets.newest-back > r.told && back < r.packets.newest && f.ArrivalCount < wire.MaxArrivals; back++ {
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
	r.waiting, r.complete, r.repeated, r.told = 0, false, now, r.packets.newest
	return f, r.packets.newest != 0
}

// spend takes f from the credit. What is told at once whatever the credit leaves
// debts, but not for long.
func (r *Receipts) spend(f wire.Feedback, frames int) {
	var buf [wire.MaxFeedback]byte
	cost := len(wire.AppendFeedback(buf[:0], f))
	if frames == 0 {
		cost += ownHeader
	}
	r.credit = max(r.credit-cost*feedbackPart, -feedbackBurst*feedbackPart)
}
