package wire

import "cmp"

// Offer asks the peer to subscribe to a channel of the sender and to mirror it
// as As: a push. Answered by Accepted or Refused.
type Offer struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // chosen by the sender, in use only once per link
	Channel string `cbor:"2,keyasint,omitempty"`
	As      string `cbor:"3,keyasint,omitempty"` // name on the peer's host; empty: Channel
	QoS     QoS    `cbor:"4,keyasint,omitzero"`  // that the sender asks for; the peer's rules may change it
}

func (m Offer) number() uint { return TypeOffer }

func (m Offer) check() error {
	return cmp.Or(checkID(m.ID), checkName("channel", m.Channel), checkName("as", cmp.Or(m.As, m.Channel)), m.QoS.check())
}

// Accepted accepts an Offer, or answers a Query about a channel that its sender may read.
type Accepted struct {
	ID uint32 `cbor:"1,keyasint,omitempty"`
}

func (m Accepted) number() uint { return TypeAccepted }
func (m Accepted) check() error { return checkID(m.ID) }
