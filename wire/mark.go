package wire

import (
	"encoding/binary"
	"math"
)

// MaxMark is the maximum number of bytes that AppendMark appends.
const MaxMark = 15

// Mark attaches bytes of a subscription's reliable stream to the packet that holds the mark and was
// sent with them. Feedback on that packet covers these bytes too, so the pacer gets feedback on
// data that is in no datagram.
type Mark struct {
	Sub   uint32 // ID of the subscription, from 1
	Bytes int    // from 1
}

// AppendMark appends m to dst. The peer refuses a Sub of 0 and Bytes below 1.
func AppendMark(dst []byte, m Mark) []byte {
	dst = append(dst, byte(KindMark))
	dst = binary.AppendUvarint(dst, uint64(m.Sub))
	return binary.AppendUvarint(dst, uint64(m.Bytes))
}

func parseMark(c *cursor) Mark {
	return Mark{
		Sub:   uint32(c.uvarint("mark sub", 1, math.MaxUint32)),
		Bytes: int(c.uvarint("mark bytes", 1, math.MaxInt)),
	}
}
