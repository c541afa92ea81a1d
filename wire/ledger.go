package wire

import (
	"cmp"
	"fmt"
	"math"
)

// Ledger says what became of the frames of the link's subscriptions. Both sides send it once a
// second, since they know different parts.
type Ledger struct {
	// Serving has the peer's subscriptions that the sender of this message
	// serves, Holding its own. IDs are the subscriber's in both. Together at
	// most MaxChannels.
	Serving []Account `cbor:"1,keyasint,omitempty"`
	Holding []Account `cbor:"2,keyasint,omitempty"`
	// Path has the facts about the path from the sender of this message to its receiver; nil:
	// nothing new.
	Path *Path `cbor:"3,keyasint,omitempty"`
}

// Path has facts that only the sender of this message knows: about the path on which it sends, and about itself. By them the
// other host can say why frames are late or missing, and both give the same verdict. Counts are since the link came up.
type Path struct {
	At   uint64 `cbor:"1,keyasint,omitempty"` // ns of the sender's CLOCK_MONOTONIC since its node started
	Full uint64 `cbor:"2,keyasint,omitempty"` // ns in which frames waited because the path was full
	Rate uint64 `cbor:"3,keyasint,omitempty"` // bytes a second that the path carried when it was last full; 0: it never was
	Sent uint64 `cbor:"4,keyasint,omitempty"` // packets sent
	Lost uint64 `cbor:"5,keyasint,omitempty"` // packets lost
	// Waited is the share of the last seconds, in %, in which the sender's daemon waited for a processor; 0: hardly, or
	// that is not known.
	Waited uint8 `cbor:"6,keyasint,omitempty"`
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
	Cause   string `cbor:"17,keyasint,omitempty"` // why the mirror takes no frames, in a word; empty: it takes them

	// Newest is the number of the newest frame in the counts: in Serving the newest that was put; in Holding the newest that
	// arrived, and only for a channel that is read at the hub. 0: not known.
	Newest uint64 `cbor:"18,keyasint,omitempty"`
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
	return cmp.Or(checkTime("path: at", p.At), checkTime("path: full", p.Full), checkRange("path: waited", int(p.Waited), 0, 100))
}

func checkTime(field string, ns uint64) error {
	if ns > math.MaxInt64 {
		return fmt.Errorf("%s: %w ns", field, errOutside(ns, 0, math.MaxInt64))
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
