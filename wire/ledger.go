package wire

import (
	"cmp"
	"fmt"
)

// Ledger tells what became of the frames of the link's subscriptions, once a
// second, both ways: the two sides know different parts of it.
type Ledger struct {
	// Serving has the peer's subscriptions that the sender of this message
	// serves, Holding its own. IDs are the subscriber's in both. Together at
	// most MaxChannels.
	Serving []Account `cbor:"1,keyasint,omitempty"`
	Holding []Account `cbor:"2,keyasint,omitempty"`
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
}

func (m Ledger) number() uint { return TypeLedger }

func (m Ledger) check() error {
	return cmp.Or(
		checkRange("accounts", len(m.Serving)+len(m.Holding), 0, MaxChannels),
		checkAccounts("serving", m.Serving),
		checkAccounts("holding", m.Holding),
	)
}

func checkAccounts(field string, accounts []Account) error {
	for i := range accounts {
		if err := checkID(accounts[i].ID); err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return nil
}
