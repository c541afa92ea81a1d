package wire

import (
	"cmp"
	"encoding/hex"
	"fmt"
)

// MaxLayout is the largest size of a layout, in bytes.
const MaxLayout = 64 << 10

// Describe requests the layout of a channel for which the catalog has a layout hash. The peer
// answers with Layout or Refused.
type Describe struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // chosen by the sender, in use only once per link
	Channel string `cbor:"2,keyasint,omitempty"`
}

func (m Describe) number() uint { return TypeDescribe }
func (m Describe) check() error { return cmp.Or(checkID(m.ID), checkName("channel", m.Channel)) }

// Layout carries a layout, which describes the bytes of a channel's frames. The receiver checks its
// hash against the catalog, and its contents.
type Layout struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // ID of the Describe
	Encoded []byte `cbor:"2,keyasint,omitempty"` // encoded by package layout
}

func (m Layout) number() uint { return TypeLayout }

func (m Layout) check() error {
	return cmp.Or(checkID(m.ID), checkRange("packed", len(m.Encoded), 1, MaxLayout))
}

// Hash is the SHA-256 of an encoded layout. The zero Hash means that there is no layout.
type Hash [32]byte

// String returns the hash in hexadecimal, or "" if it is zero.
func (h Hash) String() string {
	if h == (Hash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// UnmarshalCBOR implements cbor.Unmarshaler.
func (h *Hash) UnmarshalCBOR(b []byte) error {
	const null, longer = 0xf6, cborBytes<<5 | 24 // longer is followed by a byte with the length
	switch {
	case len(b) == 1 && b[0] == null:
		*h = Hash{}
	case len(b) == 2+len(h) && b[0] == longer && int(b[1]) == len(h):
		copy(h[:], b[2:])
	default:
		return fmt.Errorf("layout: not a byte string of %d", len(h))
	}
	return nil
}
