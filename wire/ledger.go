package wire

import "fmt"

// Ledger is the sender's account of what became of the frames of the
// subscriptions it serves, once a second.
type Ledger struct {
	Channels []Account `cbor:"1,keyasint,omitempty"` // at most MaxChannels
}

// Account counts the frames of one subscription. Offered is the sum of the
// fields from Delivered to InFlight; Duplicate and Repaired stand beside it.
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
	if err := checkRange("accounts", len(m.Channels), 0, MaxChannels); err != nil {
		return err
	}
	for i := range m.Channels {
		if err := checkID(m.Channels[i].ID); err != nil {
			return fmt.Errorf("accounts[%d]: %w", i, err)
		}
	}
	return nil
}
