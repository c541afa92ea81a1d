package wire

import (
	"cmp"
	"errors"
)

// Newest names the newest frame of a channel whose frames come through a hub. Without it a
// subscriber could not tell whether a late frame is the newest one, which it is owed, or one that
// the hub held back. The origin sends it before each frame that it owes, and once more before the next frame: then the
// one before is owed no more.
type Newest struct {
	Sub uint32 `cbor:"1,keyasint,omitempty"` // ID of the subscription
	Seq uint64 `cbor:"2,keyasint,omitempty"` // the origin's sequence number, from 1, in the epoch of the subscription
}

func (m Newest) number() uint { return TypeNewest }

func (m Newest) check() error {
	var err error
	if m.Seq == 0 {
		err = errors.New("seq: 0")
	}
	return cmp.Or(checkID(m.Sub), err)
}
