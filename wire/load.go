package wire

import (
	"cmp"
	"fmt"
	"time"
)

// Load asks the peer for a load test: one end fills what frames leave free of the link, so
// that the other can measure what the link carries. The answer is a Load with the same ID
// that is granted, or Refused. One that is not granted and has no time ends the test.
//
// The load is frames of subscription LoadSub, which no subscription is: they belong to no
// mirror and are not sent again.
type Load struct {
	ID      uint32        `cbor:"1,keyasint,omitempty"` // chosen by the asking node, in use only once per link
	For     time.Duration `cbor:"2,keyasint,omitempty"` // at most MaxLoad
	Up      bool          `cbor:"3,keyasint,omitempty"` // the asking node sends; else the asked
	Granted bool          `cbor:"4,keyasint,omitempty"`
}

const (
	// MaxLoad is how long a load test may last.
	MaxLoad = 10 * time.Second
	// LoadSub is the ID of the frames of a load test.
	LoadSub = 1<<32 - 1
)

func (m Load) number() uint { return TypeLoad }

func (m Load) check() error {
	var err error
	if m.For < 0 || m.For > MaxLoad {
		err = fmt.Errorf("for: %w", errOutside(int64(m.For), 0, int64(MaxLoad)))
	}
	return cmp.Or(checkID(m.ID), err)
}
