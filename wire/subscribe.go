package wire

import (
	"cmp"
	"fmt"
)

// Subscribe requests a channel's frames. The peer answers with Subscribed or Refused.
type Subscribe struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // chosen by the subscriber, in use only once per link
	Channel string `cbor:"2,keyasint,omitempty"`
	Epoch   uint64 `cbor:"3,keyasint,omitempty"` // epoch of HaveSeq
	HaveSeq uint64 `cbor:"4,keyasint,omitempty"` // sequence number of the newest frame that the subscriber has, 0 if it has none
	QoS     QoS    `cbor:"5,keyasint,omitzero"`
	// Held has the counters of the subscriber's mirror, summed over all its subscriptions. The
	// origin completes with them the counters of a subscription whose link has ended. Held.ID
	// identifies the mirror while the subscriber's node runs, 0 means that Held is not set.
	Held FrameCounters `cbor:"6,keyasint,omitzero"`
}

func (m Subscribe) number() uint { return TypeSubscribe }

func (m Subscribe) check() error {
	return cmp.Or(checkID(m.ID), checkName("channel", m.Channel), m.QoS.check(), m.checkHeld())
}

func (m Subscribe) checkHeld() error {
	if m.Held == (FrameCounters{}) {
		return nil
	}
	if err := checkID(m.Held.ID); err != nil {
		return fmt.Errorf("held: %w", err)
	}
	return nil
}

// Subscribed accepts a Subscribe. Frames of the given epoch follow.
type Subscribed struct {
	ID         uint32 `cbor:"1,keyasint,omitempty"`
	Epoch      uint64 `cbor:"2,keyasint,omitempty"`
	LastSeq    uint64 `cbor:"3,keyasint,omitempty"` // 0 means that the channel has no frame yet
	FrameCount int    `cbor:"4,keyasint,omitempty"`
	FrameSize  int    `cbor:"5,keyasint,omitempty"` // bytes
}

func (m Subscribed) number() uint { return TypeSubscribed }

func (m Subscribed) check() error {
	return cmp.Or(checkID(m.ID), checkGeometry(m.FrameCount, m.FrameSize))
}

// Update replaces a subscription's quality of service. With Owed it also requests last-value
// delivery of the newest frame, if the subscriber does not have it.
type Update struct {
	ID        uint32 `cbor:"1,keyasint,omitempty"`
	QoS       QoS    `cbor:"2,keyasint,omitzero"`
	HaveSeq   uint64 `cbor:"3,keyasint,omitempty"` // sequence number of the newest frame that the subscriber has, for Owed
	LastValue bool   `cbor:"4,keyasint,omitempty"` // send the newest frame if it is newer than HaveSeq, even past its budget
}

func (m Update) number() uint { return TypeUpdate }
func (m Update) check() error { return cmp.Or(checkID(m.ID), m.QoS.check()) }

// Unsubscribe ends a subscription. Frames in flight may still arrive.
type Unsubscribe struct {
	ID uint32 `cbor:"1,keyasint,omitempty"`
}

func (m Unsubscribe) number() uint { return TypeUnsubscribe }
func (m Unsubscribe) check() error { return checkID(m.ID) }
