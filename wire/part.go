package wire

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Limits of a part.
const (
	MaxParts        = 1 << 16
	MaxPartOverhead = 43 // maximum number of bytes that AppendPart appends besides the data
)

// Part is a fragment of a frame that does not fit into a datagram. Data has
// PartLen(Size, Count, Index) bytes, which begin at offset Index * PartLen(Size, Count, 0) of the
// frame.
type Part struct {
	Frame
	Size  int // size of the whole frame as it is sent, after compression, in bytes
	Index int // from 0
	Count int // number of parts of the frame
}

// PartCount returns the smallest number of parts for a frame of size bytes, if each part holds at
// most room bytes of data. Room is the size of a datagram less MaxHeader and MaxPartOverhead.
// PartCount returns 0 if size or room is below 1, size exceeds MaxFrame, or there would be more
// than MaxParts parts.
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

// PartLen returns the number of data bytes in part index of a frame of size bytes in count parts.
// Count must be one that PartCount returns or Parse accepts.
func PartLen(size, count, index int) int {
	n := ceil(size, count)
	return min(n, size-index*n)
}

// AppendPart appends p to dst, a datagram with send time sent. See AppendFrame for where Data may
// be and what is checked.
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
	// Rounding up can make the last parts empty, as for 10 bytes in 6 parts of 2.
	if ceil(p.Size, ceil(p.Size, p.Count)) != p.Count {
		c.fail("part count", fmt.Errorf("%d bytes cannot be in %d parts", p.Size, p.Count))
		return Part{}
	}
	p.Data = c.bytes("part data", PartLen(p.Size, p.Count, p.Index))
	return p
}

func ceil(a, b int) int { return (a + b - 1) / b }
