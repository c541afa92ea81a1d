package wire

import "cmp"

// Subscribed accepts a Subscribe: frames of this epoch follow.
type Subscribed struct {
	ID         uint32 `cbor:"1,keyasint,omitempty"`
	Epoch      uint64 `cbor:"2,keyasint,omitempty"`
	LastSeq    uint64 `cbor:"3,keyasint,omitempty"` // 0: no frame yet
	FrameCount int    `cbor:"4,keyasint,omitempty"`
	FrameSize  int    `cbor:"5,keyasint,omitempty"` // bytes
}

func (m Subscribed) number() uint { return TypeSubscribed }

func (m Subscribed) check() error {
	return cmp.Or(checkID(m.ID), checkGeometry(m.FrameCount, m.FrameSize))
}
