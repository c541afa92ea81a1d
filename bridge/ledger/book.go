package ledger

import (
	"achbridge/bridge/delivery"
)

// Book is the origin's ledger of one channel towards one peer: the origin
// decides what is sent, learns from feedback what has arrived, and is told by
// the peer once a second what became of that. It goes on from one subscription
// to the next. Guarded by the mu of the link that serves it.
type Book struct {
	Past  Accounts // of subscriptions that have ended; tests of the node look at it
	epoch uint64   // of the last one
	end   uint64   // number of the last frame it offered

	first                                           uint64 // number before the first frame offered
	Superseded, Limited, Expired, Refused, overflow uint64 // frames that were not sent, by reason
	WithRoom                                        uint64 // of Superseded, those that the link had room for
	Sent                                            uint64 // frames of which a packet has left
	Arrived                                         uint64 // of those, the ones that arrived, as far as feedback tells
	Lost                                            uint64 // of those, the ones given up with a packet missing
	Repaired                                        uint64
	Acks                                            delivery.Recent
	Told                                            Accounts // what the peer counts; tests of the node look at it

	Reader Reader // tests of the node look at it
	closed *Book  // the account of the last subscription as it was when it was closed
}

// Reader is the mirror that an account is about.
type Reader struct {
	Run  uint64   // life of the peer's daemon
	ID   uint32   // of the mirror in it; 0: not told
	Held Accounts // what it had counted when the subscription began
}

// open starts an account that offers nothing yet, and returns the last frame that
// the one before it offered of the same epoch.
func (b *Book) open(epoch, last uint64) (end uint64) {
	if b.epoch == epoch {
		end = b.end
	}
	*b = Book{Past: b.Past, epoch: epoch, end: end, first: last, Reader: b.Reader}
	return end
}

// Begin starts the account of a subscription whose mirror has frame have while
// the channel is at last. Only the newest frame is owed to a mirror that begins;
// what was put since a former subscription is offered, and superseded.
func (b *Book) Begin(epoch, have, last uint64) {
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

// Reopen offers frame newest once more, unless the present account has it. What
// became of it in the past, most likely that it was lost, does not count.
func (b *Book) Reopen(newest uint64) bool {
	if b.first != newest || newest == 0 {
		return false
	}
	b.first--
	for _, fate := range []*uint64{&b.Past.Lost, &b.Past.Late, &b.Past.Expired, &b.Past.Refused, &b.Past.Delivered, &b.Past.LateKept} {
		if *fate > 0 {
			*fate--
			b.Past.Offered--
			break
		}
	}
	return true
}

// BeginAll is begin for mode every: all that the ring still holds behind frame
// have is owed. What was given up for lost when a link ended is offered again, and
// what was gone by then is missed again.
func (b *Book) BeginAll(epoch, have, last uint64) {
	end := b.open(epoch, last)
	if have == 0 && end == 0 {
		return // the first record tells how far back the ring reaches
	}
	again := max(end, have) - have
	lost := min(again, b.Past.Lost)
	gone := min(again-lost, b.Past.Overflow)
	b.Past.Offered -= lost + gone
	b.Past.Lost -= lost
	b.Past.Overflow -= gone
	b.first = max(end, have) - lost - gone
}

// Recorded counts frame seq of mode every, which missed others before it are
// gone from the ring.
func (b *Book) Recorded(seq, missed uint64) {
	switch {
	case b.Sent > 0:
	case b.first >= seq: // the mirror has less than we know of, and is offered it again
		b.first, missed = seq-1, 0
	default: // nobody has missed what was gone when the subscription began
		missed = min(missed, seq-1-b.first)
	}
	b.overflow += missed
	b.Sent++
}

// Passed is recorded for a frame that cannot be sent.
func (b *Book) Passed(seq, missed uint64) {
	b.Recorded(seq, missed)
	b.Sent--
	b.Refused++
}

// Hear takes what the peer counts, unless it claims more frames than were sent, in one
// count or in all together.
func (b *Book) Hear(told Accounts) {
	most := max(told.Delivered, told.LateKept, told.Late, told.Refused, told.Superseded)
	if most <= b.Sent && told.arrived() <= b.Sent { // the sum of counts that are small does not wrap around
		b.Told = told
	}
}

// Close ends the account at frame newest. What is not known to have arrived is
// lost, unless the peer tells when it subscribes again.
func (b *Book) Close(newest uint64) {
	closed := *b
	a := b.Settled(newest)
	a.Lost += a.InFlight
	a.InFlight = 0
	*b = Book{Past: a, epoch: b.epoch, end: newest, Reader: b.Reader, closed: &closed}
}

// Settle closes the last account once more, now that its mirror subscribes anew
// and tells what it has counted in all: the difference came of that subscription,
// since no other was served in between. What cannot be is not believed.
func (b *Book) Settle(by Reader) {
	before := b.Reader
	if c := b.closed; c != nil && by.ID != 0 && by.ID == before.ID && by.Run == before.Run {
		if got, ok := by.Held.grownFrom(before.Held); ok && got.arrived() <= c.Sent {
			c.Told, c.Arrived = got, got.arrived()
			c.Close(b.end)
			b.Past = c.Past
		}
	}
	b.Reader, b.closed = by, nil
}

// Accounts returns the ledger when the channel is at frame newest and packets may be on
// their way.
func (b *Book) Accounts(newest uint64) Accounts { return b.accounts(newest, b.Lost) }

// Settled is as Accounts when no packet is on its way any more: what has not arrived is lost.
func (b *Book) Settled(newest uint64) Accounts { return b.accounts(newest, b.Sent) }

// accounts counts as lost what has not arrived, but no more than known.
func (b *Book) accounts(newest, known uint64) Accounts {
	t := b.Told
	arrived := max(b.Arrived, t.arrived())
	missing := max(b.Sent, arrived) - arrived
	a := Accounts{
		Offered:   newest - min(b.first, newest),
		Delivered: arrived - min(arrived, t.LateKept+t.Late+t.Refused+t.Superseded), LateKept: t.LateKept, Late: t.Late,
		Superseded: b.Superseded + t.Superseded, RateLimited: b.Limited, Expired: b.Expired,
		Refused: b.Refused + t.Refused, Overflow: b.overflow, Lost: min(known, missing),
		Duplicate: t.Duplicate, Repaired: b.Repaired,
	}
	a.InFlight = a.Offered - min(a.Offered, a.Settled())
	return a.plus(b.Past)
}
