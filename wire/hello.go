package wire

import (
	"cmp"
	"math"
)

// Version of the format that this package speaks.
const Version = 1

// Hello is the first message on a control stream, both ways.
type Hello struct {
	Version int      `cbor:"1,keyasint,omitempty"` // of the format
	Host    string   `cbor:"2,keyasint,omitempty"` // name of the sender's host
	Node    [16]byte `cbor:"3,keyasint"`           // identity of the sender's node
	Run     uint64   `cbor:"4,keyasint,omitempty"` // one life of the sender's daemon
}

func (m Hello) number() uint { return TypeHello }

func (m Hello) check() error {
	return cmp.Or(
		checkRange("version", m.Version, 1, math.MaxUint16),
		checkName("host", m.Host),
		checkNode(m.Node),
	)
}

// UnmarshalCBOR implements cbor.Unmarshaler.
func (m *Hello) UnmarshalCBOR(b []byte) error {
	var w struct {
		Version int    `cbor:"1,keyasint"`
		Host    string `cbor:"2,keyasint"`
		Node    node   `cbor:"3,keyasint"`
		Run     uint64 `cbor:"4,keyasint"`
	}
	err := decoding.Unmarshal(b, &w)
	*m = Hello{Version: w.Version, Host: w.Host, Node: w.Node, Run: w.Run}
	return err
}
