package wire

import "cmp"

// Offer pushes a channel of the sender: the peer is to subscribe to it and to mirror it under the
// name As. The peer answers with Accepted or Refused.
type Offer struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // chosen by the sender, in use only once per link
	Channel string `cbor:"2,keyasint,omitempty"`
	As      string `cbor:"3,keyasint,omitempty"` // name of the mirror on the peer's host; empty means Channel
	QoS     QoS    `cbor:"4,keyasint,omitzero"`  // requested by the sender; the peer's rules may change it
	// Generation is that of the operator lock which the sender holds, by the last Holder of the peer. 0 means that the
	// sender holds no lock.
	Generation uint64 `cbor:"5,keyasint,omitempty"`
	Stamps     string `cbor:"6,keyasint,omitempty"` // requested option stamps, likewise; empty means none
}

func (m Offer) number() uint { return TypeOffer }

func (m Offer) check() error {
	return cmp.Or(checkID(m.ID), checkName("channel", m.Channel), checkName("as", cmp.Or(m.As, m.Channel)), m.QoS.check(), checkText("stamps", m.Stamps))
}

// Accepted accepts an Offer. It also answers a Query if the peer may read the channel.
type Accepted struct {
	ID uint32 `cbor:"1,keyasint,omitempty"`
}

func (m Accepted) number() uint { return TypeAccepted }
func (m Accepted) check() error { return checkID(m.ID) }
