// Package ledger counts the outcomes of the frames of each channel, adds and subtracts the counters, and decides when the
// two ends of a link exchange them.
package ledger

import (
	"math"

	"achbridge/wire"
)

// FrameCounters holds the frame counters of one channel in one direction: the outcomes of the frames that its origin
// has put. Always
//
//	offered = delivered + late_kept + superseded + rate_limited + expired +
//	          lost + late + refused + overflow + in_flight
//
// Both ends have the same counters once the traffic has stopped. Duplicate and Repaired are not part of the sum.
type FrameCounters struct {
	Offered     uint64 `json:"offered"`
	Delivered   uint64 `json:"delivered"`    // put into the mirror in time
	LateKept    uint64 `json:"late_kept"`    // put past its budget, since no newer frame had replaced it
	Superseded  uint64 `json:"superseded"`   // replaced by a newer frame
	RateLimited uint64 `json:"rate_limited"` // omitted because of max_rate
	Expired     uint64 `json:"expired"`      // discarded by the origin, past its budget
	Lost        uint64 `json:"lost"`         // lost by the network, or outcome unknown when the link ended
	Late        uint64 `json:"late"`         // arrived past its budget, not put
	Refused     uint64 `json:"refused"`      // could not be put
	Overflow    uint64 `json:"overflow"`     // mode every: overwritten in the ring before it could be sent
	InFlight    uint64 `json:"in_flight"`    // outcome not known yet
	Duplicate   uint64 `json:"duplicate"`
	Repaired    uint64 `json:"repaired"`
}

// MostFrames is an upper limit for the number of frames of a channel. At a million frames a second it is reached
// after 2000 years.
const MostFrames = 1 << 56

// Outcome is one outcome and its number of frames. Name is the JSON key of the counter.
type Outcome struct {
	Name  string
	Count uint64
}

// Outcomes returns the numbers of all outcomes, without the frames in flight.
func (a FrameCounters) Outcomes() []Outcome {
	return []Outcome{
		{"delivered", a.Delivered}, {"late_kept", a.LateKept}, {"superseded", a.Superseded}, {"rate_limited", a.RateLimited},
		{"expired", a.Expired}, {"lost", a.Lost}, {"late", a.Late}, {"refused", a.Refused}, {"overflow", a.Overflow},
	}
}

// Drops returns the outcomes of frames that did not get into the mirror.
func (a FrameCounters) Drops() []Outcome { return a.Outcomes()[2:] }

// each returns all counters, the nine outcomes first.
func (a *FrameCounters) each() [13]*uint64 {
	return [...]*uint64{
		&a.Delivered, &a.LateKept, &a.Superseded, &a.RateLimited, &a.Expired, &a.Lost, &a.Late, &a.Refused, &a.Overflow,
		&a.Offered, &a.InFlight, &a.Duplicate, &a.Repaired,
	}
}

// byMirror returns the counters that a mirror keeps.
func (a *FrameCounters) byMirror() [6]*uint64 {
	return [...]*uint64{&a.Delivered, &a.LateKept, &a.Late, &a.Refused, &a.Superseded, &a.Duplicate}
}

// Most returns the largest counter.
func (a FrameCounters) Most() (most uint64) {
	for _, count := range a.each() {
		most = max(most, *count)
	}
	return most
}

// Settled returns the number of frames whose outcome is known.
func (a FrameCounters) Settled() uint64 {
	return a.Delivered + a.LateKept + a.Superseded + a.RateLimited + a.Expired + a.Lost + a.Late + a.Refused + a.Overflow
}

func (a FrameCounters) plus(o FrameCounters) FrameCounters {
	more := o.each()
	for i, count := range a.each() {
		*count += *more[i]
	}
	return a
}

// Minus returns the growth of a mirror's counters since they were o.
func (a FrameCounters) Minus(o FrameCounters) (added FrameCounters) {
	now, before := a.byMirror(), o.byMirror()
	for i, count := range added.byMirror() {
		*count = *now[i] - *before[i]
	}
	return added
}

// With adds to the origin's counters a what the mirror has counted since. count holds the mirror's current
// counters, heard its counters when a arrived. Frames that a does not include increase Offered by at most put,
// the number of frames put since a was made. If the mirror has received more, the origin had counted some of
// them as lost, expired or overflow; they count by the mirror's outcome instead.
func (a FrameCounters) With(count, reported FrameCounters, put uint64) FrameCounters {
	now, before := count.byMirror(), reported.byMirror()
	for i, sum := range a.byMirror() {
		*sum += *now[i]
		*sum -= min(*before[i], *sum) // a late frame may have another outcome now, if it was retransmitted
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

// GrownBy returns the growth of the counters since they were before, without InFlight, Duplicate and Repaired.
// If Offered is less than before, the counters were reset, and all of them are growth.
func (a FrameCounters) GrownBy(before FrameCounters) FrameCounters {
	if a.Offered < before.Offered {
		before = FrameCounters{}
	}
	grown, less := a, before.each()
	grown.InFlight, grown.Duplicate, grown.Repaired = 0, 0, 0
	for i, count := range grown.each() {
		*count -= min(*less[i], *count)
	}
	return grown
}

// LostRatio returns the share of the offered frames that did not get into the mirror. Frames omitted on purpose,
// for a newer frame or by max_rate, do not count as lost. ok is false if no frame was offered.
func (a FrameCounters) LostRatio() (share float64, ok bool) {
	lost := a.Expired + a.Lost + a.Late + a.Refused + a.Overflow
	return min(1, float64(lost)/float64(max(1, a.Offered))), a.Offered > 0
}

// ToWire returns the counters in the form of messages.
func (a FrameCounters) ToWire(id uint32) wire.FrameCounters {
	return wire.FrameCounters{
		ID: id, Offered: a.Offered, Delivered: a.Delivered, LateKept: a.LateKept, Superseded: a.Superseded,
		RateLimited: a.RateLimited, Expired: a.Expired, Lost: a.Lost, Late: a.Late, Refused: a.Refused,
		Overflow: a.Overflow, InFlight: a.InFlight, Duplicate: a.Duplicate, Repaired: a.Repaired,
	}
}

// FromWire returns the counters of a message.
func FromWire(w wire.FrameCounters) FrameCounters {
	return FrameCounters{
		Offered: w.Offered, Delivered: w.Delivered, LateKept: w.LateKept, Superseded: w.Superseded,
		RateLimited: w.RateLimited, Expired: w.Expired, Lost: w.Lost, Late: w.Late, Refused: w.Refused,
		Overflow: w.Overflow, InFlight: w.InFlight, Duplicate: w.Duplicate, Repaired: w.Repaired,
	}
}

// arrived returns the number of frames that reached the mirror with counters a.
func (a FrameCounters) arrived() uint64 {
	return a.Delivered + a.LateKept + a.Late + a.Refused + a.Superseded
}

// grownFrom is like Minus. ok is false if a counter decreased, or is greater than a mirror's counter can be.
func (a FrameCounters) grownFrom(o FrameCounters) (grown FrameCounters, ok bool) {
	grown = a.Minus(o)
	const most = math.MaxUint64 / 8 // a counter that decreased has wrapped around
	return grown, grown.Most() < most
}
