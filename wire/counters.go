package wire

import (
	"cmp"
	"fmt"
	"math"
)

// Counters reports the frame counters of the link's subscriptions. Both ends send it once a second,
// since each counts what the other cannot see.
type Counters struct {
	// Serving has the counters of the peer's subscriptions, which the sender of this message
	// serves. Holding has those of the sender's own. In both the subscriber chose the IDs. Together
	// they have at most MaxChannels entries.
	Serving []FrameCounters `cbor:"1,keyasint,omitempty"`
	Holding []FrameCounters `cbor:"2,keyasint,omitempty"`
	// Path describes the path from the sender of this message to its receiver. nil means that
	// nothing has changed.
	Path *Path `cbor:"3,keyasint,omitempty"`
}

// Path has facts that only the sender of this message knows, about the path on which it sends and
// about itself. The receiver needs them to diagnose late or missing frames as the sender does.
// Counts start at 0 when the link comes up.
type Path struct {
	At   uint64 `cbor:"1,keyasint,omitempty"` // ns of the sender's CLOCK_MONOTONIC since its node started
	Full uint64 `cbor:"2,keyasint,omitempty"` // ns in which frames waited because the path was full
	Rate uint64 `cbor:"3,keyasint,omitempty"` // bytes a second that the path carried when it was last full, or 0 if it never was
	Sent uint64 `cbor:"4,keyasint,omitempty"` // packets sent
	Lost uint64 `cbor:"5,keyasint,omitempty"` // packets lost
	// Waited is the share of the last seconds, in percent, in which the sender's daemon waited for
	// a CPU. 0 means hardly at all, or unknown.
	Waited uint8 `cbor:"6,keyasint,omitempty"`
}

// FrameCounters has the frame counters of one subscription. When those of both ends are combined,
//
//	Offered = Delivered + LateKept + Superseded + RateLimited + Expired +
//	          Lost + Late + Refused + Overflow + InFlight
//
// Duplicate and Repaired are not part of the sum. The subscriber counts only Delivered, LateKept,
// Late, Refused, Duplicate, and frames that were Superseded after their arrival: a newer one was
// there already, or replaced them while the mirror was locked.
type FrameCounters struct {
	ID          uint32 `cbor:"1,keyasint,omitempty"` // subscription ID
	Offered     uint64 `cbor:"2,keyasint,omitempty"`
	Delivered   uint64 `cbor:"3,keyasint,omitempty"`
	LateKept    uint64 `cbor:"4,keyasint,omitempty"`
	Superseded  uint64 `cbor:"5,keyasint,omitempty"`
	RateLimited uint64 `cbor:"6,keyasint,omitempty"`
	Expired     uint64 `cbor:"7,keyasint,omitempty"`
	Lost        uint64 `cbor:"8,keyasint,omitempty"`
	Late        uint64 `cbor:"9,keyasint,omitempty"`
	Refused     uint64 `cbor:"10,keyasint,omitempty"`
	Overflow    uint64 `cbor:"11,keyasint,omitempty"`
	InFlight    uint64 `cbor:"12,keyasint,omitempty"`
	Duplicate   uint64 `cbor:"13,keyasint,omitempty"`
	Repaired    uint64 `cbor:"14,keyasint,omitempty"`

	// Waited and Transit are set in Holding only. Cause is also set in Serving, if the origin
	// cannot read the channel.
	Waited      uint64 `cbor:"15,keyasint,omitempty"` // time that frames have waited for the mirror's lock, in ns
	OneWayDelay uint64 `cbor:"16,keyasint,omitempty"` // time from capture to arrival of the newest frame, in ns; 0 means unknown
	Cause       string `cbor:"17,keyasint,omitempty"` // why the mirror takes no frames; empty if it takes them

	// Newest is the sequence number of the newest frame in the counts, 0 if unknown. In Serving
	// that is the newest frame that was put. In Holding it is the newest that arrived, and set
	// only for a channel that is read at the hub.
	Newest uint64 `cbor:"18,keyasint,omitempty"`
}

// MaxCause is the largest length of a cause, in bytes.
const MaxCause = 32

func (m Counters) number() uint { return TypeCounters }

func (m Counters) check() error {
	return cmp.Or(
		checkRange("accounts", len(m.Serving)+len(m.Holding), 0, MaxChannels),
		checkCounters("serving", m.Serving),
		checkCounters("holding", m.Holding),
		m.Path.check(),
	)
}

func (p *Path) check() error {
	if p == nil {
		return nil
	}
	return cmp.Or(checkTime("path: at", p.At), checkTime("path: full", p.Full), checkRange("path: waited", int(p.Waited), 0, 100))
}

func checkTime(field string, ns uint64) error {
	if ns > math.MaxInt64 {
		return fmt.Errorf("%s: %w ns", field, errOutside(ns, 0, math.MaxInt64))
	}
	return nil
}

func checkCounters(field string, counters []FrameCounters) error {
	for i := range counters {
		a := &counters[i]
		if err := cmp.Or(checkID(a.ID), checkTime("waited", a.Waited), checkTime("transit", a.OneWayDelay), checkCause(a.Cause)); err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return nil
}

func checkCause(cause string) error {
	if len(cause) > MaxCause {
		return fmt.Errorf("cause: longer than %d bytes", MaxCause)
	}
	for _, c := range []byte(cause) {
		if (c < 'a' || c > 'z') && c != '_' {
			return fmt.Errorf("cause: %q is no word", cause)
		}
	}
	return nil
}
