package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Limits of a frame.
const (
	MaxFrame         = 64 << 20 // largest frame, in bytes
	MaxFrameOverhead = 35       // maximum number of bytes that AppendFrame appends besides the data
)

// Frame is a whole frame inside one datagram.
type Frame struct {
	Sub       uint32        // ID of the subscription, from 1
	Epoch     uint32        // low 32 bits of the channel's epoch
	Seq       uint64        // the origin's sequence number, from 1
	Captured  time.Duration // capture time, since the sender's node started; 0 means unknown
	LastValue bool          // last-value delivery: the mirror may put this frame past its budget
	Codec     Codec         // how Data is compressed
	RawSize   int           // size before compression in bytes, 1 … MaxFrame; 0 with CodecNone
	Data      []byte        // not empty
}

// Codec is the compression of a frame. A large frame is compressed first and then split into parts.
type Codec uint8

// The codecs of version 1.
const (
	CodecNone Codec = 0
	CodecS2   Codec = 1 // one S2 block
	CodecZstd Codec = 2 // one Zstandard frame
)

// The type byte of a frame or part has the kind in its low four bits, then one bit for Owed and
// three for the codec.
const (
	kindBits     = 0x0f
	lastValueBit = 0x10
	codecShift   = 5
)

// AppendFrame appends f to dst, a datagram with send time sent. A capture time after sent, which a
// later reading of the clock can give, is sent as sent.
//
// Data may be in dst's spare capacity, at least MaxFrameOverhead bytes after its end; AppendFrame
// then moves it into place. AppendFrame does not check the ranges that Frame documents; the peer
// does.
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

// The identity is the fields that frames and parts begin with, from type to raw size.

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

// typeByte returns the type byte. It maps each unknown codec to one that the peer refuses.
func typeByte(kind Kind, f *Frame) byte {
	b := byte(kind) | byte(min(f.Codec, CodecZstd+1))<<codecShift
	if f.LastValue {
		b |= lastValueBit
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

// captured encodes the capture time at relative to sent, which makes it short.
func captured(sent, at time.Duration) uint64 {
	at = min(at, sent)
	if at <= 0 {
		return 0
	}
	return 1 + uint64(sent-at)
}

// parseIdentity reads the identity after its type byte, kind.
func parseIdentity(c *cursor, kind byte, sent time.Duration) Frame {
	codec := Codec(kind >> codecShift)
	if codec > CodecZstd {
		c.fail("type", fmt.Errorf("codec: %w", errOutside(codec, CodecNone, CodecZstd)))
		return Frame{}
	}
	f := Frame{
		LastValue: kind&lastValueBit != 0,
		Codec:     codec,
		Sub:       uint32(c.uvarint("sub", 1, math.MaxUint32)),
		Epoch:     c.u32("epoch"),
		Seq:       c.uvarint("seq", 1, math.MaxUint64),
	}
	if v := c.uvarint("captured", 0, uint64(sent)); v != 0 {
		f.Captured = sent - time.Duration(v-1)
	}
	if codec != CodecNone {
		f.RawSize = int(c.uvarint("raw size", 1, MaxFrame))
	}
	return f
}
