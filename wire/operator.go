package wire

import (
	"cmp"
	"fmt"
	"time"
)

// Take asks for the operator lock of a channel of the peer: only the pushes of its holder are accepted. The peer answers
// with Holder, or with Refused. Nodes whose Hello lacks Locks skip the message.
type Take struct {
	ID      uint32        `cbor:"1,keyasint,omitempty"` // chosen by the sender, in use only once per link
	Channel string        `cbor:"2,keyasint,omitempty"` // name on the peer's host
	For     time.Duration `cbor:"3,keyasint,omitempty"` // how long to hold the lock, at most MaxHold; 0 means without end
	Force   bool          `cbor:"4,keyasint,omitempty"` // take it from another holder
}

// MaxHold is the longest time for which a lock with an end is taken.
const MaxHold = 366 * 24 * time.Hour

func (m Take) number() uint { return TypeTake }

func (m Take) check() error {
	return cmp.Or(checkID(m.ID), checkName("channel", m.Channel), checkDuration("for", m.For, MaxHold))
}

// Release ends the sender's operator lock of a channel of the peer, or gives it to another host. The peer answers with
// Holder, or with Refused.
type Release struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // chosen by the sender, in use only once per link
	Channel string `cbor:"2,keyasint,omitempty"`
	To      string `cbor:"3,keyasint,omitempty"` // host that gets the lock; empty means nobody
}

func (m Release) number() uint { return TypeRelease }

func (m Release) check() error {
	err := cmp.Or(checkID(m.ID), checkName("channel", m.Channel))
	if err == nil && m.To != "" {
		err = checkName("to", m.To)
	}
	return err
}

// HolderQuery requests the holder of the operator lock of a channel of the peer. The peer answers with Holder, or with
// Refused.
type HolderQuery struct {
	ID      uint32 `cbor:"1,keyasint,omitempty"` // chosen by the sender, in use only once per link
	Channel string `cbor:"2,keyasint,omitempty"`
}

func (m HolderQuery) number() uint { return TypeHolderQuery }
func (m HolderQuery) check() error { return cmp.Or(checkID(m.ID), checkName("channel", m.Channel)) }

// Holder reports the holder of the operator lock of a channel of the sender. It answers Take, Release and HolderQuery.
// Without an ID it reports a change to a peer whose push depends on the lock.
type Holder struct {
	ID         uint32        `cbor:"1,keyasint,omitempty"` // ID of the message that it answers, 0 if none
	Channel    string        `cbor:"2,keyasint,omitempty"`
	Host       string        `cbor:"3,keyasint,omitempty"` // host of the holder; empty means nobody
	Generation uint64        `cbor:"4,keyasint,omitempty"` // for Offer; 0 if nobody holds the lock
	HeldFor    time.Duration `cbor:"5,keyasint,omitempty"` // since the lock was taken
	Left       time.Duration `cbor:"6,keyasint,omitempty"` // until the lock ends; 0 means that it has no end
	Yours      bool          `cbor:"7,keyasint,omitempty"` // the receiver is the holder
	InGrace    bool          `cbor:"8,keyasint,omitempty"` // nothing arrives from the holder
}

func (m Holder) number() uint { return TypeHolder }

func (m Holder) check() error {
	err := cmp.Or(checkName("channel", m.Channel), checkDuration("held for", m.HeldFor, maxTime), checkDuration("left", m.Left, maxTime))
	if err == nil && m.Host != "" {
		err = checkName("host", m.Host)
	}
	if err == nil && (m.Host == "") != (m.Generation == 0) {
		err = fmt.Errorf("generation: %d with host %q", m.Generation, m.Host)
	}
	return err
}

// maxTime is the greatest time on the wire.
const maxTime = time.Duration(1<<63 - 1)

func checkDuration(field string, d, most time.Duration) error {
	if d < 0 || d > most {
		return fmt.Errorf("%s: %w", field, errOutside(int64(d), 0, int64(most)))
	}
	return nil
}
