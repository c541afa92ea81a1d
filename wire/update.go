package wire

import "cmp"

// Update replaces a subscription's quality of service, or asks for the newest
// frame that the subscriber does not hold. Both, when both are given: QoS is
// always the one wanted from now on.
type Update struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"`
	QoS     QoS    `cbor:"2,keyasint,omitzero"`
	HaveSeq uint64 `cbor:"3,keyasint,omitempty"` // newest frame the subscriber has; 0: only QoS changes, or it has none
	Owed    bool   `cbor:"4,keyasint,omitempty"` // send the newest frame if it is newer than HaveSeq, even past its budget
}

func (m Update) number() uint { return TypeUpdate }
func (m Update) check() error { return cmp.Or(checkID(m.ID), m.QoS.check()) }
