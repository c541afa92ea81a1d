package wire

import "cmp"

// Update replaces a subscription's quality of service.
type Update struct {
	ID  uint32 `cbor:"1,keyasint,omitempty"`
	QoS QoS    `cbor:"2,keyasint,omitzero"`
}

func (m Update) number() uint { return TypeUpdate }
func (m Update) check() error { return cmp.Or(checkID(m.ID), m.QoS.check()) }
