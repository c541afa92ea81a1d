package wire

import "cmp"

// Query asks whether the sender may read a channel of the peer. The peer answers with Refused, or
// with Accepted and a Catalog that has the channel once more.
type Query struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // chosen by the sender, in use only once per link
	Channel string `cbor:"2,keyasint,omitempty"`
}

func (m Query) number() uint { return TypeQuery }
func (m Query) check() error { return cmp.Or(checkID(m.ID), checkName("channel", m.Channel)) }
