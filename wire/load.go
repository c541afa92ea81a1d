package wire

import (
	"cmp"
	"time"
)

// Load requests a load test: one end sends as much as the link carries besides its frames, and the
// other end measures that. The peer answers with a Load that has the same ID and Granted, or with
// Refused. A Load without Granted and For ends the test.
//
// The load is frames with the subscription ID LoadSub, which no subscription has. They belong to no
// mirror and are not retransmitted.
type Load struct {
	ID      uint32        `cbor:"1,keyasint,omitempty"` // chosen by the asking node, in use only once per link
	For     time.Duration `cbor:"2,keyasint,omitempty"` // at most MaxLoad
	Up      bool          `cbor:"3,keyasint,omitempty"` // the requesting node sends the load, not the requested
	Granted bool          `cbor:"4,keyasint,omitempty"`
}

const (
	// MaxLoad is the longest duration of a load test.
	MaxLoad = 10 * time.Second
	// LoadSub is the subscription ID of frames of a load test.
	LoadSub = 1<<32 - 1
)

func (m Load) number() uint { return TypeLoad }

func (m Load) check() error {
	return cmp.Or(checkID(m.ID), checkDuration("for", m.For, MaxLoad))
}
