package wire

import (
	"cmp"
	"fmt"
	"time"
)

// MaxFrameCount is the greatest frame count of a channel in a message.
const MaxFrameCount = 1 << 24

// Catalog lists the channels of the sender's host. The first is full, later ones list changes.
// A catalog of more than MaxChannels is sent as a full one and changes.
type Catalog struct {
	Full     bool      `cbor:"1,keyasint,omitempty"` // replaces all earlier catalogs
	Channels []Channel `cbor:"2,keyasint,omitempty"` // new or changed, at most MaxChannels
	Gone     []string  `cbor:"3,keyasint,omitempty"` // names, at most MaxChannels
}

// Channel is one channel in a Catalog. The product of count and size is not limited here: the
// receiver decides which geometry it accepts.
type Channel struct {
	Name       string  `cbor:"1,keyasint,omitempty"`
	FrameCount int     `cbor:"2,keyasint,omitempty"`
	FrameSize  int     `cbor:"3,keyasint,omitempty"` // bytes
	Epoch      uint64  `cbor:"4,keyasint,omitempty"`
	LastSeq    uint64  `cbor:"5,keyasint,omitempty"`  // 0 means that the channel has no frame yet
	Origin     *Origin `cbor:"6,keyasint,omitempty"`  // set if the channel is a mirror
	Closed     bool    `cbor:"7,keyasint,omitempty"`  // the peer may not read the channel
	Largest    int     `cbor:"8,keyasint,omitempty"`  // size in bytes of the largest frame seen, if above FrameSize
	Layout     Hash    `cbor:"9,keyasint,omitzero"`   // names the layout of the frames, see Describe; for a mirror, the origin's
	Clock      *Clock  `cbor:"10,keyasint,omitempty"` // clock of the time stamps inside the frames of a mirror, nil if not known
	Kernel     bool    `cbor:"11,keyasint,omitempty"` // the frames are in the kernel's Ach module, not in shared memory
}

// Clock identifies the CLOCK_MONOTONIC by which time stamps inside frames count. It is the sender's clock if the sender
// has shifted them, otherwise that of the host from which they came.
type Clock struct {
	Node   [16]byte      `cbor:"1,keyasint"`
	Host   string        `cbor:"2,keyasint,omitempty"`
	Boot   [16]byte      `cbor:"3,keyasint"`           // boot id of the host's kernel
	Offset time.Duration `cbor:"4,keyasint,omitempty"` // the sender's CLOCK_MONOTONIC minus that of the host
	Error  time.Duration `cbor:"5,keyasint,omitempty"` // greatest error of Offset, or of stamps that the sender has shifted
}

// MaxClockOffset is the greatest absolute value of Offset and Error in a Clock, and of Start in Hello: 18 years. Sums of
// several stay within a time.Duration.
const MaxClockOffset = time.Duration(1) << 59

// Origin identifies the channel that a mirror is a copy of.
type Origin struct {
	Node    [16]byte `cbor:"1,keyasint"`
	Host    string   `cbor:"2,keyasint,omitempty"`
	Channel string   `cbor:"3,keyasint,omitempty"`
}

func (m Catalog) number() uint { return TypeCatalog }

func (m Catalog) check() error {
	if err := cmp.Or(
		checkRange("channels", len(m.Channels), 0, MaxChannels),
		checkRange("gone", len(m.Gone), 0, MaxChannels),
	); err != nil {
		return err
	}
	for i := range m.Channels {
		if err := m.Channels[i].check(); err != nil {
			return fmt.Errorf("channels[%d]: %w", i, err)
		}
	}
	for i, name := range m.Gone {
		if err := checkName("name", name); err != nil {
			return fmt.Errorf("gone[%d]: %w", i, err)
		}
	}
	return nil
}

func (c *Channel) check() error {
	if err := checkName("name", c.Name); err != nil {
		return err
	}
	if err := checkGeometry(c.FrameCount, c.FrameSize); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	if err := checkRange("largest", c.Largest, 0, MaxFrame); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	if c.Origin != nil {
		if err := c.Origin.check(); err != nil {
			return fmt.Errorf("%s: origin: %w", c.Name, err)
		}
	}
	if c.Clock != nil {
		if err := c.Clock.check(); err != nil {
			return fmt.Errorf("%s: clock: %w", c.Name, err)
		}
	}
	return nil
}

func checkGeometry(count, size int) error {
	return cmp.Or(
		checkRange("frame count", count, 1, MaxFrameCount),
		checkRange("frame size", size, 1, MaxFrame),
	)
}

func (o *Origin) check() error {
	return cmp.Or(checkNode(o.Node), checkName("host", o.Host), checkName("channel", o.Channel))
}

// UnmarshalCBOR implements cbor.Unmarshaler.
func (o *Origin) UnmarshalCBOR(b []byte) error {
	var w struct {
		Node    node   `cbor:"1,keyasint"`
		Host    string `cbor:"2,keyasint"`
		Channel string `cbor:"3,keyasint"`
	}
	err := decoding.Unmarshal(b, &w)
	*o = Origin{Node: w.Node, Host: w.Host, Channel: w.Channel}
	return err
}

func (c *Clock) check() error {
	if c.Boot == [16]byte{} {
		return fmt.Errorf("boot: %w", errNone)
	}
	return cmp.Or(
		checkNode(c.Node), checkName("host", c.Host),
		checkRange("offset", int(c.Offset), int(-MaxClockOffset), int(MaxClockOffset)),
		checkRange("error", int(c.Error), 0, int(MaxClockOffset)),
	)
}

// UnmarshalCBOR implements cbor.Unmarshaler.
func (c *Clock) UnmarshalCBOR(b []byte) error {
	var w struct {
		Node   node          `cbor:"1,keyasint"`
		Host   string        `cbor:"2,keyasint"`
		Boot   node          `cbor:"3,keyasint"`
		Offset time.Duration `cbor:"4,keyasint"`
		Error  time.Duration `cbor:"5,keyasint"`
	}
	err := decoding.Unmarshal(b, &w)
	*c = Clock{Node: w.Node, Host: w.Host, Boot: w.Boot, Offset: w.Offset, Error: w.Error}
	return err
}
