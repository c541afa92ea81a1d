package bridge

import (
	"math"

	"achbridge/bridge/fresh"
	"achbridge/wire"
)

// book is the origin's ledger of one channel towards one peer: the origin
// decides what is sent, learns from feedback what has arrived, and is told by
// the peer once a second what became of that. It goes on from one subscription
// to the next. Guarded by the mu of the link that serves it.
type book struct {
	past  Accounts // of subscriptions that have ended
	epoch uint64   // of the last one
	end   uint64   // number of the last frame it offered

	first                                           uint64 // number before the first frame offered
	superseded, limited, expired, refused, overflow uint64 // frames that were not sent, by reason
	sent                                            uint64 // frames of which a packet has left
	arrived                                         uint64 // of those, the ones that arrived, as far as feedback tells
	lost                                            uint64 // of those, the ones given up with a packet missing
	repaired                                        uint64
	acks                                            fresh.Recent
	told                                            Accounts // what the peer counts

	reader reader
	closed *book // the account of the last subscription as it was when it was closed
}

// reader is the mirror that an account is about.
type reader struct {
	run  uint64   // life of the peer's daemon
	id   uint32   // of the mirror in it; 0: not told
	held Accounts // what it had counted when the subscription began
}

// open starts an account that offers nothing yet, and returns the last frame that
// the one before it offered of the same epoch.
func (b *book) open(epoch, last uint64) (end uint64) {
	if b.epoch == epoch {
		end = b.end
	}
	*b = book{past: b.past, epoch: epoch, end: end, first: last, reader: b.reader}
	return end
}

// begin starts the account of a subscription whose mirror has frame have while
// the channel is at last. Only the newest frame is owed to a mirror that begins;
// what was put since a former subscription is offered, and superseded.
func (b *book) begin(epoch, have, last uint64) {
	end := b.open(epoch, last)
	switch {
	case have >= last:
	case have == 0 && end == 0:
		b.first = last - 1
	default:
		b.first = min(max(have, end), last)
		b.superseded = last - min(b.first+1, last)
		b.reopen(last)
	}
}

// reopen offers frame newest once more, unless the present account has it. What
// became of it in the past, most likely that it was lost, does not count.
func (b *book) reopen(newest uint64) bool {
	if b.first != newest || newest == 0 {
		return false
	}
	b.first--
	for _, fate := range []*uint64{&b.past.Lost, &b.past.Late, &b.past.Expired, &b.past.Refused, &b.past.Delivered, &b.past.LateKept} {
		if *fate > 0 {
			*fate--
			b.past.Offered--
			break
		}
	}
	return true
}

// beginAll is begin for mode every: all that the ring still holds behind frame
// have is owed. What was given up for lost when a link ended is offered again, and
// what was gone by then is missed again.
func (b *book) beginAll(epoch, have, last uint64) {
	end := b.open(epoch, last)
	if have == 0 && end == 0 {
		return // the first record tells how far back the ring reaches
	}
	again := max(end, have) - have
	lost := min(again, b.past.Lost)
	gone := min(again-lost, b.past.Overflow)
	b.past.Offered -= lost + gone
	b.past.Lost -= lost
	b.past.Overflow -= gone
	b.first = max(end, have) - lost - gone
}

// recorded counts frame seq of mode every, which missed others before it are
// gone from the ring.
func (b *book) recorded(seq, missed uint64) {
	if b.sent == 0 && b.end == 0 && b.first >= seq { // nobody has missed what was gone when the subscription began
		b.first, missed = seq-1, 0
	}
	b.overflow += missed
	b.sent++
}

// hear takes what the peer counts, unless it claims more frames than were sent.
func (b *book) hear(told Accounts) {
	if max(told.Delivered, told.LateKept, told.Late, told.Refused, told.Superseded) <= b.sent {
		b.told = told
	}
}

// close ends the account at frame newest. What is not known to have arrived is
// lost, unless the peer tells when it subscribes again.
func (b *book) close(newest uint64) {
	closed := *b
	a := b.accounts(newest, true)
	a.Lost += a.InFlight
	a.InFlight = 0
	*b = book{past: a, epoch: b.epoch, end: newest, reader: b.reader, closed: &closed}
}

// settle closes the last account once more, now that its mirror subscribes anew
// and tells what it has counted in all: the difference came of that subscription,
// since no other was served in between. What cannot be is not believed.
func (b *book) settle(by reader) {
	before := b.reader
	if c := b.closed; c != nil && by.id != 0 && by.id == before.id && by.run == before.run {
		if got, ok := by.held.grownFrom(before.held); ok && got.arrived() <= c.sent {
			c.told, c.arrived = got, got.arrived()
			c.close(b.end)
			b.past = c.past
		}
	}
	b.reader, b.closed = by, nil
}

// arrived are the frames that came to a mirror which counts a.
func (a Accounts) arrived() uint64 {
	return a.Delivered + a.LateKept + a.Late + a.Refused + a.Superseded
}

// grownFrom is minus, and false when a count is less than it was, or greater than
// any mirror's can be.
func (a Accounts) grownFrom(o Accounts) (grown Accounts, ok bool) {
	grown = a.minus(o)
	const most = math.MaxUint64 / 8 // a count that went back has wrapped around
	return grown, max(grown.Delivered, grown.LateKept, grown.Late, grown.Refused, grown.Superseded, grown.Duplicate) < most
}

// accounts returns the ledger when the channel is at frame newest; settled means
// that no packet is on its way any more.
func (b *book) accounts(newest uint64, settled bool) Accounts {
	t := b.told
	arrived := max(b.arrived, t.arrived())
	missing := max(b.sent, arrived) - arrived
	a := Accounts{
		Offered:   newest - min(b.first, newest),
		Delivered: arrived - min(arrived, t.LateKept+t.Late+t.Refused+t.Superseded), LateKept: t.LateKept, Late: t.Late,
		Superseded: b.superseded + t.Superseded, RateLimited: b.limited, Expired: b.expired,
		Refused: b.refused + t.Refused, Overflow: b.overflow, Lost: missing,
		Duplicate: t.Duplicate, Repaired: b.repaired,
	}
	if !settled {
		a.Lost = min(b.lost, missing)
	}
	a.InFlight = a.Offered - min(a.Offered, a.settled())
	return a.plus(b.past)
}

// settled are the frames whose fate is known.
func (a Accounts) settled() uint64 {
	return a.Delivered + a.LateKept + a.Superseded + a.RateLimited + a.Expired + a.Lost + a.Late + a.Refused + a.Overflow
}

func (a Accounts) plus(o Accounts) Accounts {
	return Accounts{
		Offered: a.Offered + o.Offered, Delivered: a.Delivered + o.Delivered, LateKept: a.LateKept + o.LateKept,
		Superseded: a.Superseded + o.Superseded, RateLimited: a.RateLimited + o.RateLimited, Expired: a.Expired + o.Expired,
		Lost: a.Lost + o.Lost, Late: a.Late + o.Late, Refused: a.Refused + o.Refused, Overflow: a.Overflow + o.Overflow,
		InFlight: a.InFlight + o.InFlight, Duplicate: a.Duplicate + o.Duplicate, Repaired: a.Repaired + o.Repaired,
	}
}

// minus is what was added to the counts of a mirror since they were o.
func (a Accounts) minus(o Accounts) Accounts {
	return Accounts{
		Delivered: a.Delivered - o.Delivered, LateKept: a.LateKept - o.LateKept, Late: a.Late - o.Late,
		Refused: a.Refused - o.Refused, Superseded: a.Superseded - o.Superseded, Duplicate: a.Duplicate - o.Duplicate,
	}
}

// account is the ledger as messages carry it.
func (a Accounts) account(id uint32) wire.Account {
	return wire.Account{
		ID: id, Offered: a.Offered, Delivered: a.Delivered, LateKept: a.LateKept, Superseded: a.Superseded,
		RateLimited: a.RateLimited, Expired: a.Expired, Lost: a.Lost, Late: a.Late, Refused: a.Refused,
		Overflow: a.Overflow, InFlight: a.InFlight, Duplicate: a.Duplicate, Repaired: a.Repaired,
	}
}

func accountsOf(w wire.Account) Accounts {
	return Accounts{
		Offered: w.Offered, Delivered: w.Delivered, LateKept: w.LateKept, Superseded: w.Superseded,
		RateLimited: w.RateLimited, Expired: w.Expired, Lost: w.Lost, Late: w.Late, Refused: w.Refused,
		Overflow: w.Overflow, InFlight: w.InFlight, Duplicate: w.Duplicate, Repaired: w.Repaired,
	}
}
