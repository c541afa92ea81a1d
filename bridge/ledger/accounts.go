package ledger

import (
	"math"

	"achbridge/wire"
)

// Accounts is the ledger of one channel in one direction: what became of the
// frames that its origin has put. Always
//
//	offered = delivered + late_kept + superseded + rate_limited + expired +
//	          lost + late + refused + overflow + in_flight
//
// Both ends show the same once the traffic has stopped. Duplicate and repaired
// are counted beside it.
type Accounts struct {
	Offered     uint64 `json:"offered"`
	Delivered   uint64 `json:"delivered"`    // put into the mirror in time
	LateKept    uint64 `json:"late_kept"`    // put past its budget, since nothing newer had replaced it
	Superseded  uint64 `json:"superseded"`   // a newer frame took its place
	RateLimited uint64 `json:"rate_limited"` // passed over between two slots of max_rate
	Expired     uint64 `json:"expired"`      // given up at the origin, past its budget
	Lost        uint64 `json:"lost"`         // by the network, or unknown when the link ended
	Late        uint64 `json:"late"`         // arrived past its budget, not put
	Refused     uint64 `json:"refused"`      // could not be put
	Overflow    uint64 `json:"overflow"`     // mode every: gone from the ring before it could be sent
	InFlight    uint64 `json:"in_flight"`    // fate not known yet
	Duplicate   uint64 `json:"duplicate"`
	Repaired    uint64 `json:"repaired"`
}

// MostFrames is more than any channel ever has: at a million frames a second, of 2000
// years.
const MostFrames = 1 << 56

// Fate is what became of a number of frames. Its name is the counter's JSON key.
type Fate struct {
	Name  string
	Count uint64
}

// Fates are all that can have become of a frame, but that it is in flight.
func (a Accounts) Fates() []Fate {
	return []Fate{
		{"delivered", a.Delivered}, {"late_kept", a.LateKept}, {"superseded", a.Superseded}, {"rate_limited", a.RateLimited},
		{"expired", a.Expired}, {"lost", a.Lost}, {"late", a.Late}, {"refused", a.Refused}, {"overflow", a.Overflow},
	}
}

// Drops are the fates of frames that did not get into the mirror.
func (a Accounts) Drops() []Fate { return a.Fates()[2:] }

// each returns all counters: the nine fates first.
func (a *Accounts) each() [13]*uint64 {
	return [...]*uint64{
		&a.Delivered, &a.LateKept, &a.Superseded, &a.RateLimited, &a.Expired, &a.Lost, &a.Late, &a.Refused, &a.Overflow,
		&a.Offered, &a.InFlight, &a.Duplicate, &a.Repaired,
	}
}

// byMirror returns the counters that a mirror keeps.
func (a *Accounts) byMirror() [6]*uint64 {
	return [...]*uint64{&a.Delivered, &a.LateKept, &a.Late, &a.Refused, &a.Superseded, &a.Duplicate}
}

// Most is the largest of the counts.
func (a Accounts) Most() (most uint64) {
	for _, count := range a.each() {
		most = max(most, *count)
	}
	return most
}

// Settled are the frames whose fate is known.
func (a Accounts) Settled() uint64 {
	return a.Delivered + a.LateKept + a.Superseded + a.RateLimited + a.Expired + a.Lost + a.Late + a.Refused + a.Overflow
}

func (a Accounts) plus(o Accounts) Accounts {
	more := o.each()
	for i, count := range a.each() {
		*count += *more[i]
	}
	return a
}

// Minus is what was added to the counts of a mirror since they were o.
func (a Accounts) Minus(o Accounts) (added Accounts) {
	now, before := a.byMirror(), o.byMirror()
	for i, count := range added.byMirror() {
		*count = *now[i] - *before[i]
	}
	return added
}

// With returns the origin's account a, which arrived when a mirror had counted heard, brought up to date by
// the mirror's count now. Frames that are not in a yet are added to those offered: at most put,
// the number of frames that were put since a was made. If the mirror has received more than that, the origin
// had given some of them up, and they count by their fate at the mirror.
func (a Accounts) With(count, heard Accounts, put uint64) Accounts {
	now, before := count.byMirror(), heard.byMirror()
	for i, sum := range a.byMirror() {
		*sum += *now[i]
		*sum -= min(*before[i], *sum) // a frame that was late when we heard may not be late any more
	}
	if settled := a.Settled(); settled > a.Offered {
		twice := settled - a.Offered
		twice -= min(put, twice)
		for _, count := range []*uint64{&a.Lost, &a.Expired, &a.Overflow} {
			less := min(twice, *count)
			*count -= less
			twice -= less
		}
		a.Offered = max(a.Offered, a.Settled())
	}
	a.InFlight = a.Offered - a.Settled()
	return a
}

// GrownBy returns what was offered since the account was before, and what became of
// it. An account that offers less than before has begun anew, and counts from nothing.
func (a Accounts) GrownBy(before Accounts) Accounts {
	if a.Offered < before.Offered {
		before = Accounts{}
	}
	grown, less := a, before.each()
	grown.InFlight, grown.Duplicate, grown.Repaired = 0, 0, 0
	for i, count := range grown.each() {
		*count -= min(*less[i], *count)
	}
	return grown
}

// LostRatio returns the share of the offered frames that did not get into the mirror. Frames that were left out on purpose, for a
// newer frame or by max_rate, do not count as lost. ok is false if no frame was offered.
func (a Accounts) LostRatio() (share float64, ok bool) {
	lost := a.Expired + a.Lost + a.Late + a.Refused + a.Overflow
	return min(1, float64(lost)/float64(max(1, a.Offered))), a.Offered > 0
}

// ToWire is the ledger as messages carry it.
func (a Accounts) ToWire(id uint32) wire.Account {
	return wire.Account{
		ID: id, Offered: a.Offered, Delivered: a.Delivered, LateKept: a.LateKept, Superseded: a.Superseded,
		RateLimited: a.RateLimited, Expired: a.Expired, Lost: a.Lost, Late: a.Late, Refused: a.Refused,
		Overflow: a.Overflow, InFlight: a.InFlight, Duplicate: a.Duplicate, Repaired: a.Repaired,
	}
}

// FromWire is the ledger of a message.
func FromWire(w wire.Account) Accounts {
	return Accounts{
		Offered: w.Offered, Delivered: w.Delivered, LateKept: w.LateKept, Superseded: w.Superseded,
		RateLimited: w.RateLimited, Expired: w.Expired, Lost: w.Lost, Late: w.Late, Refused: w.Refused,
		Overflow: w.Overflow, InFlight: w.InFlight, Duplicate: w.Duplicate, Repaired: w.Repaired,
	}
}

// arrived are the frames that came to a mirror which counts a.
func (a Accounts) arrived() uint64 {
	return a.Delivered + a.LateKept + a.Late + a.Refused + a.Superseded
}

// grownFrom is minus, and false when a count is less than it was, or greater than
// any mirror's can be.
func (a Accounts) grownFrom(o Accounts) (grown Accounts, ok bool) {
	grown = a.Minus(o)
	const most = math.MaxUint64 / 8 // a count that went back has wrapped around
	return grown, grown.Most() < most
}
