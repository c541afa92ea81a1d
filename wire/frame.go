package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Limits of a frame.
const (
	MaxFrame         = 64 << 20 // bytes
	MaxFrameOverhead = 35       // bytes AppendFrame appends at most, without the data
)

// Frame is a whole frame inside one datagram.
type Frame struct {
	Sub      uint32        // ID of the subscription, from 1
	Epoch    uint32        // low 32 bits of the channel's epoch
	Seq      uint64        // the origin's sequence number, from 1
	Captured time.Duration // since the sender's node started; 0: unknown
	Owed     bool          // the subscriber is owed the ring's newest frame: it may be put past its budget
	Codec    Codec         // of Data
	RawSize  int           // bytes of the frame before compression, 1 … MaxFrame; 0 with CodecNone
	Data     []byte        // not empty
}

// Codec is how the bytes of a frame are compressed. A frame is compressed
// before it is cut into parts.
type Codec uint8

// The codecs of version 1.
const (
	CodecNone Codec = 0
	CodecS2   Codec = 1 // one block
	CodecZstd Codec = 2 // one frame
)

// A frame's or part's type byte: the kind in the low four bits, one for Owed,
// the codec in the three above.
const (
	kindBits   = 0x0f
	owedBit    = 0x10
	codecShift = 5
)

// AppendFrame appends f to dst, inside a datagram sent at sent. A capture time
// after sent counts as sent: the clock was read again in between.
//
// Data may lie in dst's spare capacity, MaxFrameOverhead or more bytes behind
// its end: it is moved into place. The peer refuses an unknown Codec and what the comments of
// Frame do not allow.
func AppendFrame(dst []byte, sent time.Duration, f Frame) []byte {
	dst = appendIdentity(dst, KindFrame, sent, &f)
	dst = binary.AppendUvarint(dst, uint64(len(f.Data)))
	return append(dst, f.Data...)
}

func parseFrame(c *cursor, kind byte, sent time.Duration) Frame {
	f := parseIdentity(c, kind, sent)
	size := c.uvarint("frame size", 1, MaxFrame)
	f.Data = c.bytes("frame data", int(size))
	return f
}

// The identity is what a frame and a part have in common: type to raw size.

func appendIdentity(dst []byte, kind Kind, sent time.Duration, f *Frame) []byte {
	dst = append(dst, typeByte(kind, f))
	dst = binary.AppendUvarint(dst, uint64(f.Sub))
	dst = binary.BigEndian.AppendUint32(dst, f.Epoch)
	dst = binary.AppendUvarint(dst, f.Seq)
	dst = binary.AppendUvarint(dst, captured(sent, f.Captured))
	if f.Codec != CodecNone {
		dst = binary.AppendUvarint(dst, uint64(f.RawSize))
	}
	return dst
}

// typeByte makes the type byte. An unknown codec stays one that the peer refuses.
func typeByte(kind Kind, f *Frame) byte {
	b := byte(kind) | byte(min(f.Codec, CodecZstd+1))<<codecShift
	if f.Owed {
		b |= owedBit
	}
	return b
}

func identitySize(sent time.Duration, f *Frame) int {
	n := 1 + uvarintSize(uint64(f.Sub)) + 4 + uvarintSize(f.Seq) + uvarintSize(captured(sent, f.Captured))
	if f.Codec != CodecNone {
		n += uvarintSize(uint64(f.RawSize))
	}
	return n
}

// captured is the capture time in the form of the wire: relative to sent, which makes it short.
func captured(sent, at time.Duration) uint64 {
	at = min(at, sent)
	if at <= 0 {
		return 0
	}
	return 1 + uint64(sent-at)
}

// parseIdentity reads what follows the type byte kind.
func parseIdentity(c *cursor, kind byte, sent time.Duration) Frame {
	codec := Codec(kind >> codecShift)
	if codec > CodecZstd {
		c.fail("type", fmt.Errorf("codec: %w", errOutside(codec, CodecNone, CodecZstd)))
		return Frame{}
	}
	f := Frame{
		Owed:  kind&owedBit != 0,
		Codec: codec,
		Sub:   uint32(c.uvarint("sub", 1, math.MaxUint32)),
		Epoch: c.u32("epoch"),
		Seq:   c.uvarint("seq", 1, math.MaxUint64),
	}
	if v := c.uvarint("captured", 0, uint64(sent)); v != 0 {
		f.Captured = sent - time.Duration(v-1)
	}
	if codec != CodecNone {
		f.RawSize = int(c.uvarint("raw size", 1, MaxFrame))
	}
	return f
}
