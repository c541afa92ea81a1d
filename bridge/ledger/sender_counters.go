package ledger

import (
	"achbridge/bridge/delivery"
)

// SenderCounters holds the origin's counters of one channel for one peer. The origin decides which frames to send, learns
// from feedback which frames have arrived, and receives the peer's counters once a second. It lasts over
// several subscriptions. Guarded by the mu of the link that serves it.
type SenderCounters struct {
	Past  FrameCounters // counters of ended subscriptions; exported for tests of the node
	epoch uint64        // epoch of the last subscription
	end   uint64        // number of the last frame offered by earlier subscriptions

	first                                           uint64 // number before the first frame offered
	Superseded, Limited, Expired, Refused, overflow uint64 // frames that were not sent, by reason
	WithRoom                                        uint64 // part of Superseded: frames that the link had room for
	Sent                                            uint64 // frames of which at least one packet was sent
	Arrived                                         uint64 // part of Sent: frames that arrived, according to feedback
	Lost                                            uint64 // part of Sent: frames given up with a packet missing
	Repaired                                        uint64
	Acks                                            delivery.Recent
	Reported                                        FrameCounters // counters reported by the peer; exported for tests of the node

	Reader Reader          // exported for tests of the node
	closed *SenderCounters // the counters before the last Close, see Settle; nil before the first
}

// Reader identifies the mirror that receives the frames.
type Reader struct {
	Run  uint64        // incarnation of the peer's daemon
	ID   uint32        // ID of the mirror in that daemon; 0 if not reported
	Held FrameCounters // the mirror's counters when the subscription began
}

// open starts the counters of a subscription without offered frames. It returns the last frame of the same epoch
// that earlier subscriptions offered.
func (b *SenderCounters) open(epoch, last uint64) (end uint64) {
	if b.epoch == epoch {
		end = b.end
	}
	*b = SenderCounters{Past: b.Past, epoch: epoch, end: end, first: last, Reader: b.Reader}
	return end
}

// Begin starts the counters of a subscription in mode newest. have is the mirror's newest frame, last the
// channel's. Only the newest frame is sent to a new mirror. Other frames put since an earlier subscription count
// as offered and superseded.
func (b *SenderCounters) Begin(epoch, have, last uint64) {
	end := b.open(epoch, last)
	switch {
	case have >= last:
	case have == 0 && end == 0:
		b.first = last - 1
	default:
		b.first = min(max(have, end), last)
		b.Superseded = last - min(b.first+1, last)
		b.Reopen(last)
	}
}

// Reopen offers frame newest again, unless the current subscription already offers it. The frame's earlier
// outcome, most likely lost, is removed from the counters.
func (b *SenderCounters) Reopen(newest uint64) bool {
	if b.first != newest || newest == 0 {
		return false
	}
	b.first--
	for _, outcome := range []*uint64{&b.Past.Lost, &b.Past.Late, &b.Past.Expired, &b.Past.Refused, &b.Past.Delivered, &b.Past.LateKept} {
		if *outcome > 0 {
			*outcome--
			b.Past.Offered--
			break
		}
	}
	return true
}

// BeginAll is like Begin for mode every: all frames after have that are in the ring will be sent. Frames that
// counted as lost when a link ended are offered again. Frames that were overwritten in the ring by then count as
// overflow again.
func (b *SenderCounters) BeginAll(epoch, have, last uint64) {
	end := b.open(epoch, last)
	if have == 0 && end == 0 {
		return // the first record shows how far back the ring reaches
	}
	again := max(end, have) - have
	lost := min(again, b.Past.Lost)
	gone := min(again-lost, b.Past.Overflow)
	b.Past.Offered -= lost + gone
	b.Past.Lost -= lost
	b.Past.Overflow -= gone
	b.first = max(end, have) - lost - gone
}

// Recorded counts frame seq of mode every as sent. missed is the number of frames before it that were
// overwritten in the ring.
func (b *SenderCounters) Recorded(seq, missed uint64) {
	switch {
	case b.Sent > 0:
	case b.first >= seq: // the mirror has fewer frames than recorded here, and gets them again
		b.first, missed = seq-1, 0
	default: // frames overwritten before the subscription began do not count
		missed = min(missed, seq-1-b.first)
	}
	b.overflow += missed
	b.Sent++
}

// Passed is like Recorded for a frame that cannot be sent; it counts as refused.
func (b *SenderCounters) Passed(seq, missed uint64) {
	b.Recorded(seq, missed)
	b.Sent--
	b.Refused++
}

// TakeReport stores the peer's counters. It ignores them if a counter or their sum exceeds the number of frames sent.
func (b *SenderCounters) TakeReport(reported FrameCounters) {
	most := max(reported.Delivered, reported.LateKept, reported.Late, reported.Refused, reported.Superseded)
	if most <= b.Sent && reported.arrived() <= b.Sent { // the sum cannot overflow, since each counter is small
		b.Reported = reported
	}
}

// Close ends the subscription at frame newest. Frames not known to have arrived count as lost, unless the peer
// reports otherwise when it subscribes again, see Settle.
func (b *SenderCounters) Close(newest uint64) {
	closed := *b
	a := b.Settled(newest)
	a.Lost += a.InFlight
	a.InFlight = 0
	*b = SenderCounters{Past: a, epoch: b.epoch, end: newest, Reader: b.Reader, closed: &closed}
}

// Settle corrects the last Close when its mirror subscribes again and reports its total counters. Their growth
// is the result of the closed subscription, since no other one was served in between. Impossible values are
// ignored.
func (b *SenderCounters) Settle(by Reader) {
	before := b.Reader
	if c := b.closed; c != nil && by.ID != 0 && by.ID == before.ID && by.Run == before.Run {
		if got, ok := by.Held.grownFrom(before.Held); ok && got.arrived() <= c.Sent {
			c.Reported, c.Arrived = got, got.arrived()
			c.Close(b.end)
			b.Past = c.Past
		}
	}
	b.Reader, b.closed = by, nil
}

// FrameCounters returns the counters while packets may be in flight. newest is the channel's newest frame.
func (b *SenderCounters) FrameCounters(newest uint64) FrameCounters {
	return b.counters(newest, b.Lost)
}

// Settled is like Accounts when no packet is in flight any more: frames that have not arrived count as lost.
func (b *SenderCounters) Settled(newest uint64) FrameCounters { return b.counters(newest, b.Sent) }

// counters computes the counters. Frames that have not arrived count as lost, but at most known of them.
func (b *SenderCounters) counters(newest, known uint64) FrameCounters {
	t := b.Reported
	arrived := max(b.Arrived, t.arrived())
	missing := max(b.Sent, arrived) - arrived
	a := FrameCounters{
		Offered:   newest - min(b.first, newest),
		Delivered: arrived - min(arrived, t.LateKept+t.Late+t.Refused+t.Superseded), LateKept: t.LateKept, Late: t.Late,
		Superseded: b.Superseded + t.Superseded, RateLimited: b.Limited, Expired: b.Expired,
		Refused: b.Refused + t.Refused, Overflow: b.overflow, Lost: min(known, missing),
		Duplicate: t.Duplicate, Repaired: b.Repaired,
	}
	a.InFlight = a.Offered - min(a.Offered, a.Settled())
	return a.plus(b.Past)
}
