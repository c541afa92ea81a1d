package wire

import (
	"cmp"
	"fmt"
)

// Subscribe asks for a channel's frames. Answered by Subscribed or Refused.
type Subscribe struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // chosen by the subscriber, in use only once per link
	Channel string `cbor:"2,keyasint,omitempty"`
	Epoch   uint64 `cbor:"3,keyasint,omitempty"` // of HaveSeq
	HaveSeq uint64 `cbor:"4,keyasint,omitempty"` // newest frame the subscriber has; 0: none
	QoS     QoS    `cbor:"5,keyasint,omitzero"`
	// Held has the counts of the subscriber's mirror over all its subscriptions, so that the
	// account of a subscription whose link has ended can be completed. Its ID identifies the
	// mirror while the subscriber's node runs. An ID of 0 means that there is no Held.
	Held Account `cbor:"6,keyasint,omitzero"`
}

func (m Subscribe) number() uint { return TypeSubscribe }

func (m Subscribe) check() error {
	return cmp.Or(checkID(m.ID), checkName("channel", m.Channel), m.QoS.check(), m.checkHeld())
}

func (m Subscribe) checkHeld() error {
	if m.Held == (Account{}) {
		return nil
	}
	if err := checkID(m.Held.ID); err != nil {
		return fmt.Errorf("held: %w", err)
	}
	return nil
}

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

// Update sets a subscription's quality of service, which is always that from now on. With Owed
// it also asks for the newest frame that the subscriber does not hold.
type Update struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"`
	QoS     QoS    `cbor:"2,keyasint,omitzero"`
	HaveSeq uint64 `cbor:"3,keyasint,omitempty"` // newest frame the subscriber has; 0: only QoS changes, or it has none
	Owed    bool   `cbor:"4,keyasint,omitempty"` // send the newest frame if it is newer than HaveSeq, even past its budget
}

func (m Update) number() uint { return TypeUpdate }
func (m Update) check() error { return cmp.Or(checkID(m.ID), m.QoS.check()) }

// Unsubscribe ends a subscription. Frames under way may still arrive.
type Unsubscribe struct {
	ID uint32 `cbor:"1,keyasint,omitempty"`
}

func (m Unsubscribe) number() uint { return TypeUnsubscribe }
func (m Unsubscribe) check() error { return checkID(m.ID) }
