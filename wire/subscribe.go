package wire

import "cmp"

// Subscribe asks for a channel's frames. Answered by Subscribed or Refused.
type Subscribe struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // chosen by the subscriber, in use only once per link
	Channel string `cbor:"2,keyasint,omitempty"`
	Epoch   uint64 `cbor:"3,keyasint,omitempty"` // of HaveSeq
	HaveSeq uint64 `cbor:"4,keyasint,omitempty"` // newest frame the subscriber has; 0: none
	QoS     QoS    `cbor:"5,keyasint,omitzero"`
}

func (m Subscribe) number() uint { return TypeSubscribe }

func (m Subscribe) check() error {
	return cmp.Or(checkID(m.ID), checkName("channel", m.Channel), m.QoS.check())
}
