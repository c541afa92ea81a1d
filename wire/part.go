package wire

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Limits of a part.
const (
	MaxParts        = 1 << 16
	MaxPartOverhead = 43 // bytes AppendPart appends at most, without the data
)

// Part is one part of a frame that does not fit into a datagram. Data holds
// the part's bytes, PartLen(Size, Count, Index) of them; those before it are
// Index * PartLen(Size, Count, 0).
type Part struct {
	Frame
	Size  int // bytes of the whole frame as it travels: compressed, with a Codec
	Index int // from 0
	Count int // parts of the frame
}

// PartCount is the least number of parts for a frame of size bytes when at
// most room bytes of data fit into one part; 0 when it cannot be sent so: size
// or room below 1, size above MaxFrame, or more than MaxParts. Room is what the
// datagram holds, less MaxHeader and MaxPartOverhead.
func PartCount(size, room int) int {
	if size < 1 || room < 1 || size > MaxFrame {
		return 0
	}
	count := ceil(size, room)
	if count > MaxParts {
		return 0
	}
	return count
}

// PartLen is the number of bytes in part index of a frame of size bytes in
// count parts, where count is one that PartCount returns or Parse accepts.
func PartLen(size, count, index int) int {
	n := ceil(size, count)
	return min(n, size-index*n)
}

// AppendPart appends p to dst, inside a datagram sent at sent. The rest is as
// with AppendFrame.
func AppendPart(dst []byte, sent time.Duration, p Part) []byte {
	dst = appendIdentity(dst, KindPart, sent, &p.Frame)
	dst = binary.AppendUvarint(dst, uint64(p.Size))
	dst = binary.AppendUvarint(dst, uint64(p.Index))
	dst = binary.AppendUvarint(dst, uint64(p.Count))
	return append(dst, p.Data...)
}

func parsePart(c *cursor, kind byte, sent time.Duration) Part {
	p := Part{Frame: parseIdentity(c, kind, sent)}
	p.Size = int(c.uvarint("part size", 1, MaxFrame))
	p.Index = int(c.uvarint("part index", 0, MaxParts-1))
	p.Count = int(c.uvarint("part count", 1, MaxParts))
	if c.err != nil {
		return Part{}
	}
	if p.Index >= p.Count {
		c.fail("part index", errOutside(p.Index, 0, p.Count-1))
		return Part{}
	}
	// Rounding up can leave nothing for the last parts: 10 bytes in 6 parts of 2.
	if ceil(p.Size, ceil(p.Size, p.Count)) != p.Count {
		c.fail("part count", fmt.Errorf("%d bytes cannot be in %d parts", p.Size, p.Count))
		return Part{}
	}
	p.Data = c.bytes("part data", PartLen(p.Size, p.Count, p.Index))
	return p
}

func ceil(a, b int) int { return (a + b - 1) / b }
