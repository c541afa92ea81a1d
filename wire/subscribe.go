package wire

import (
	"cmp"
	"fmt"
)

// Subscribe asks for a channel's frames. Answered by Subscribed or Refused.
type Subscribe struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // chosen by the subscriber, in use only once per link
	Channel string `cbor:"2,keyasint,omitempty"`
	Epoch   uint64 `cbor:"3,keyasint,omitempty"` // of HaveSeq
	HaveSeq uint64 `cbor:"4,keyasint,omitempty"` // newest frame the subscriber has; 0: none
	QoS     QoS    `cbor:"5,keyasint,omitzero"`
	// Held is what the subscriber's mirror has counted in all its subscriptions, so
	// that the account of one whose link ended can be settled. Its ID names the
	// mirror, as long as the subscriber's node runs; without one there is no Held.
	Held Account `cbor:"6,keyasint,omitzero"`
}

func (m Subscribe) number() uint { return TypeSubscribe }

func (m Subscribe) check() error {
	return cmp.Or(checkID(m.ID), checkName("channel", m.Channel), m.QoS.check(), m.checkHeld())
}

func (m Subscribe) checkHeld() error {
	if m.Held == (Account{}) {
		return nil
	}
	if err := checkID(m.Held.ID); err != nil {
		return fmt.Errorf("held: %w", err)
	}
	return nil
}
