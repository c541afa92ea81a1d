package wire

import (
	"cmp"
	"fmt"
	"math"
)

// Ledger tells what became of the frames of the link's subscriptions, once a
// second, both ways: the two sides know different parts of it.
type Ledger struct {
	// Serving has the peer's subscriptions that the sender of this message
	// serves, Holding its own. IDs are the subscriber's in both. Together at
	// most MaxChannels.
	Serving []Account `cbor:"1,keyasint,omitempty"`
	Holding []Account `cbor:"2,keyasint,omitempty"`
	// Path is what the sender of this message knows of the way from it to the receiver;
	// nil: nothing new.
	Path *Path `cbor:"3,keyasint,omitempty"`
}

// Path is what only the host knows that sends: the other one tells by it why frames
// come late, or do not come, and so says the same. Counts are since the link came up.
type Path struct {
	At   uint64 `cbor:"1,keyasint,omitempty"` // ns of the sender's CLOCK_MONOTONIC since its node started
	Full uint64 `cbor:"2,keyasint,omitempty"` // ns in which frames have waited, since the way could take no more
	Rate uint64 `cbor:"3,keyasint,omitempty"` // bytes a second that it carried when it was last full; 0: it never was
	Sent uint64 `cbor:"4,keyasint,omitempty"` // packets
	Lost uint64 `cbor:"5,keyasint,omitempty"` // of those
}

// Account counts the frames of one subscription. When both sides' accounts are
// put together
//
//	Offered = Delivered + LateKept + Superseded + RateLimited + Expired +
//	          Lost + Late + Refused + Overflow + InFlight
//
// Duplicate and Repaired stand beside it. The subscriber itself counts only
// Delivered, LateKept, Late, Refused, Superseded (overtaken, or replaced while
// the mirror was locked) and Duplicate.
type Account struct {
	ID          uint32 `cbor:"1,keyasint,omitempty"` // of the subscription
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

	// In Holding, what only the subscriber knows of its mirror; Cause also in Serving, where
	// it says why the channel cannot be read.
	Waited  uint64 `cbor:"15,keyasint,omitempty"` // ns in which frames have waited for the mirror's lock
	Transit uint64 `cbor:"16,keyasint,omitempty"` // ns from capture to arrival of the newest; 0: not known
	Cause   string `cbor:"17,keyasint,omitempty"` // why the mirror takes no frames, in a word; empty: it does
}

// MaxCause is the longest word for a cause, in bytes.
const MaxCause = 32

func (m Ledger) number() uint { return TypeLedger }

func (m Ledger) check() error {
	return cmp.Or(
		checkRange("accounts", len(m.Serving)+len(m.Holding), 0, MaxChannels),
		checkAccounts("serving", m.Serving),
		checkAccounts("holding", m.Holding),
		m.Path.check(),
	)
}

func (p *Path) check() error {
	if p == nil {
		return nil
	}
	return cmp.Or(checkTime("path: at", p.At), checkTime("path: full", p.Full))
}

func checkTime(field string, ns uint64) error {
	if ns > math.MaxInt64 {
		return fmt.Errorf("%s: %w ns", field, outside(ns, 0, math.MaxInt64))
	}
	return nil
}

func checkAccounts(field string, accounts []Account) error {
	for i := range accounts {
		a := &accounts[i]
		if err := cmp.Or(checkID(a.ID), checkTime("waited", a.Waited), checkTime("transit", a.Transit), checkCause(a.Cause)); err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return nil
}

func checkCause(word string) error {
	if len(word) > MaxCause {
		return fmt.Errorf("cause: longer than %d bytes", MaxCause)
	}
	for _, c := range []byte(word) {
		if (c < 'a' || c > 'z') && c != '_' {
			return fmt.Errorf("cause: %q is no word", word)
		}
	}
	return nil
}
