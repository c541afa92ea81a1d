package wire

import (
	"cmp"
	"encoding/hex"
	"fmt"
)

// MaxLayout is the size of the largest layout, in bytes.
const MaxLayout = 64 << 10

// Describe asks what the frames of a channel hold, of which the catalog has the hash of a layout.
// Answered by Layout or Refused.
type Describe struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // chosen by the sender, in use only once per link
	Channel string `cbor:"2,keyasint,omitempty"`
}

func (m Describe) number() uint { return TypeDescribe }
func (m Describe) check() error { return cmp.Or(checkID(m.ID), checkName("channel", m.Channel)) }

// Layout says what the frames of a channel hold. Whoever gets it checks whether it has the hash of
// the catalog, and what it says.
type Layout struct {
	ID     uint32 `cbor:"1,keyasint,omitempty"` // of the Describe
	Packed []byte `cbor:"2,keyasint,omitempty"`
}

func (m Layout) number() uint { return TypeLayout }

func (m Layout) check() error {
	return cmp.Or(checkID(m.ID), checkRange("packed", len(m.Packed), 1, MaxLayout))
}

// Hash is the SHA-256 of a layout; zero: none.
type Hash [32]byte

// String is the hash in hexadecimal; "" for none.
func (h Hash) String() string {
	if h == (Hash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// UnmarshalCBOR implements cbor.Unmarshaler.
func (h *Hash) UnmarshalCBOR(b []byte) error {
	const null, longer = 0xf6, cborBytes<<5 | 24 // whose length is in the next byte
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
