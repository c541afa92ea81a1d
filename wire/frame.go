package wire

import (
	"encoding/binary"
	"math"
	"time"
)

// Limits of a frame.
const (
	MaxFrame         = 64 << 20 // bytes
	MaxFrameOverhead = 31       // bytes AppendFrame appends at most, without the data
)

// Frame is a frame that travels whole, inside one datagram.
type Frame struct {
	Sub      uint32        // ID of the subscription, from 1
	Epoch    uint32        // low 32 bits of the channel's epoch
	Seq      uint64        // the origin's sequence number, from 1
	Captured time.Duration // since the sender's node started; 0: unknown
	Data     []byte        // not empty
}

// AppendFrame appends f to dst, inside a datagram sent at sent. A capture time
// after sent counts as sent: the clock was read again in between.
//
// Data may lie in dst's spare capacity, MaxFrameOverhead or more bytes behind
// its end: it is moved into place. The peer refuses a Sub or Seq of 0 and empty
// Data.
func AppendFrame(dst []byte, sent time.Duration, f Frame) []byte {
	dst = append(dst, byte(KindFrame))
	dst = appendIdentity(dst, sent, &f)
	dst = binary.AppendUvarint(dst, uint64(len(f.Data)))
	return append(dst, f.Data...)
}

// FrameSize is the number of bytes AppendFrame appends.
func FrameSize(sent time.Duration, f Frame) int {
	return 1 + identitySize(sent, &f) + uvarintSize(uint64(len(f.Data))) + len(f.Data)
}

func parseFrame(c *cursor, sent time.Duration) Frame {
	f := parseIdentity(c, sent)
	size := c.uvarint("frame size", 1, MaxFrame)
	f.Data = c.bytes("frame data", int(size))
	return f
}

// The identity is what a frame and a part have in common: sub to captured.

func appendIdentity(dst []byte, sent time.Duration, f *Frame) []byte {
	dst = binary.AppendUvarint(dst, uint64(f.Sub))
	dst = binary.BigEndian.AppendUint32(dst, f.Epoch)
	dst = binary.AppendUvarint(dst, f.Seq)
	return binary.AppendUvarint(dst, captured(sent, f.Captured))
}

func identitySize(sent time.Duration, f *Frame) int {
	return uvarintSize(uint64(f.Sub)) + 4 + uvarintSize(f.Seq) + uvarintSize(captured(sent, f.Captured))
}

// captured is the capture time as the wire has it: relative to sent, where it
// is short.
func captured(sent, at time.Duration) uint64 {
	at = min(at, sent)
	if at <= 0 {
		return 0
	}
	return 1 + uint64(sent-at)
}

func parseIdentity(c *cursor, sent time.Duration) Frame {
	f := Frame{
		Sub:   uint32(c.uvarint("sub", 1, math.MaxUint32)),
		Epoch: c.u32("epoch"),
		Seq:   c.uvarint("seq", 1, math.MaxUint64),
	}
	if v := c.uvarint("captured", 0, uint64(sent)); v != 0 {
		f.Captured = sent - time.Duration(v-1)
	}
	return f
}
