package wire

import (
	"cmp"
	"math"
	"time"
)

// Version is the version of the wire format that this package implements.
const Version = 1

// Hello is the first message on a control stream, both ways.
type Hello struct {
	Version int      `cbor:"1,keyasint,omitempty"` // version of the wire format
	Host    string   `cbor:"2,keyasint,omitempty"` // name of the sender's host
	Node    [16]byte `cbor:"3,keyasint"`           // identity of the sender's node
	Run     uint64   `cbor:"4,keyasint,omitempty"` // incarnation of the sender's daemon
	Machine [16]byte `cbor:"5,keyasint,omitzero"`  // a hash of the sender's hardware and Node, zero if not known
	Boot    [16]byte `cbor:"6,keyasint,omitzero"`  // boot id of the sender's kernel, zero if not known
	// Start is the sender's CLOCK_MONOTONIC when its node started, the time from which all times of the sender count. 0
	// means not known.
	Start time.Duration `cbor:"7,keyasint,omitempty"`
	Locks bool          `cbor:"8,keyasint,omitempty"` // the sender knows operator locks: Take to Holder, and the generation of Offer
	Edits bool          `cbor:"9,keyasint,omitempty"` // the sender knows Edit
}

func (m Hello) number() uint { return TypeHello }

func (m Hello) check() error {
	return cmp.Or(
		checkRange("version", m.Version, 1, math.MaxUint16),
		checkName("host", m.Host),
		checkNode(m.Node),
		checkRange("start", int(m.Start), 0, int(MaxClockOffset)),
	)
}

// UnmarshalCBOR implements cbor.Unmarshaler.
func (m *Hello) UnmarshalCBOR(b []byte) error {
	var w struct {
		Version int    `cbor:"1,keyasint"`
		Host    string `cbor:"2,keyasint"`
		Node    node   `cbor:"3,keyasint"`
		Run     uint64 `cbor:"4,keyasint"`
		Machine node   `cbor:"5,keyasint"`
		Boot    node   `cbor:"6,keyasint"`

		Start time.Duration `cbor:"7,keyasint"`
		Locks bool          `cbor:"8,keyasint"`
		Edits bool          `cbor:"9,keyasint"`
	}
	err := decoding.Unmarshal(b, &w)
	*m = Hello{Version: w.Version, Host: w.Host, Node: w.Node, Run: w.Run, Machine: w.Machine, Boot: w.Boot, Start: w.Start, Locks: w.Locks, Edits: w.Edits}
	return err
}

// Bye announces that the sender closes the link. It is the last message on a control stream.
type Bye struct {
	Reason string `cbor:"1,keyasint,omitempty"` // for people, see Text
}

func (m Bye) number() uint { return TypeBye }
func (m Bye) check() error { return checkText("reason", m.Reason) }

// Revocations carries the list of certificates that the network's authority has revoked. Any node
// may pass the list on, since the authority has signed it.
type Revocations struct {
	List []byte `cbor:"1,keyasint,omitempty"` // a CRL (RFC 5280) in DER
}

// MaxRevocations is the largest size of a list, in bytes.
const MaxRevocations = 64 << 10

func (m Revocations) number() uint { return TypeRevocations }
func (m Revocations) check() error { return checkRange("list", len(m.List), 1, MaxRevocations) }
