package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// Limits of a feedback.
const (
	MaxArrivals = 16
	MaxGaps     = 8
	MaxFeedback = 357 // maximum number of bytes that AppendFeedback appends
)

var (
	errBelowOne      = errors.New("has a packet below number 1")
	errNotIncreasing = errors.New("not increasing")
	errNotInBitmap   = errors.New("of a packet that the bitmap does not have")
)

// Feedback acknowledges the peer's packets, with their arrival times, and requests missing parts
// of frames. It holds no pointers, so copies are independent.
type Feedback struct {
	Newest  uint64        // highest packet number received, from 1
	Bitmap  uint64        // bit i: packet Newest-1-i was received too
	Arrived time.Duration // arrival of Newest, since the reporter's node started

	Arrivals     [MaxArrivals]Arrival
	ArrivalCount int // how many of Arrivals are set
	Gaps         [MaxGaps]Gap
	GapCount     int // how many of Gaps are set
}

// Arrival is the arrival time of a packet in the bitmap.
type Arrival struct {
	Back   uint64        // the packet is Newest-Back: 1 … 64, each greater than the one before
	Before time.Duration // arrival of Newest minus arrival of that packet, not negative
}

// Gap is a run of missing parts of a frame.
type Gap struct {
	Sub   uint32
	Seq   uint64
	First int // index of the first missing part
	Count int // number of missing parts, from 1
}

// AppendFeedback appends f to dst. It panics if ArrivalCount or GapCount exceeds its limit. It does
// not check the other ranges that Feedback, Arrival and Gap document; the peer does.
func AppendFeedback(dst []byte, f Feedback) []byte {
	dst = append(dst, byte(KindFeedback))
	dst = binary.AppendUvarint(dst, f.Newest)
	dst = binary.BigEndian.AppendUint64(dst, f.Bitmap)
	dst = append(dst, byte(f.ArrivalCount))
	for _, a := range f.Arrivals[:f.ArrivalCount] {
		dst = binary.AppendUvarint(dst, a.Back)
		dst = binary.AppendUvarint(dst, uint64(a.Before))
	}
	dst = binary.AppendUvarint(dst, uint64(f.Arrived))
	dst = append(dst, byte(f.GapCount))
	for _, g := range f.Gaps[:f.GapCount] {
		dst = binary.AppendUvarint(dst, uint64(g.Sub))
		dst = binary.AppendUvarint(dst, g.Seq)
		dst = binary.AppendUvarint(dst, uint64(g.First))
		dst = binary.AppendUvarint(dst, uint64(g.Count))
	}
	return dst
}

func parseFeedback(c *cursor) (f Feedback) {
	f.Newest = c.uvarint("feedback newest", 1, math.MaxInt64)
	f.Bitmap = c.u64("feedback bitmap")
	// Bit i is packet Newest-1-i, so only the lowest Newest-1 bits can be set.
	if c.err == nil && f.Newest <= 64 && f.Bitmap>>(f.Newest-1) != 0 {
		c.fail("feedback bitmap", errBelowOne)
	}
	f.ArrivalCount = c.u8("feedback arrivals", MaxArrivals)
	var back uint64
	var longest time.Duration
	for i := range f.ArrivalCount {
		a := parseArrival(c)
		switch {
		case c.err != nil:
			return f
		case a.Back <= back:
			c.fail("arrival back", errNotIncreasing)
		case f.Bitmap&(1<<(a.Back-1)) == 0:
			c.fail("arrival back", errNotInBitmap)
		}
		back, longest = a.Back, max(longest, a.Before)
		f.Arrivals[i] = a
	}
	f.Arrived = time.Duration(c.uvarint("feedback arrived", uint64(longest), math.MaxInt64))
	f.GapCount = c.u8("feedback gaps", MaxGaps)
	for i := range f.GapCount {
		f.Gaps[i] = parseGap(c)
	}
	return f
}

func parseArrival(c *cursor) Arrival {
	return Arrival{
		Back:   c.uvarint("arrival back", 1, 64),
		Before: time.Duration(c.uvarint("arrival before", 0, math.MaxInt64)),
	}
}

func parseGap(c *cursor) Gap {
	g := Gap{
		Sub:   uint32(c.uvarint("gap sub", 1, math.MaxUint32)),
		Seq:   c.uvarint("gap seq", 1, math.MaxUint64),
		First: int(c.uvarint("gap first", 0, MaxParts-1)),
	}
	g.Count = int(c.uvarint("gap count", 1, uint64(MaxParts-g.First)))
	return g
}
