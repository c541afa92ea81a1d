package wire

import (
	"cmp"
	"errors"
)

// Newest carries the sequence number of a channel's newest frame to a subscriber at a hub. It
// proves that a late frame is the newest one, which last-value delivery puts past its budget, and
// not an old one that the hub delayed. The origin sends it before each such frame. It sends another
// Newest before the next frame, which ends the exception for the frame before.
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
