package localach_test

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// stamp is the beginning of each frame in these tests, as in testdata/peer/frame.h: five words in the host's byte order. A
// pattern follows that depends on them, so that a mixture of two frames is detected.
type stamp struct{ writer, count, nanos, size, check uint64 }

const stampSize = 40

func monotonic() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano())
}

func (s stamp) sum() uint64 {
	return s.writer*0x9E3779B97F4A7C15 ^ s.count*0xC2B2AE3D27D4EB4F ^ s.nanos*0x165667B19E3779F9 ^ s.size
}

func (s stamp) pattern(i int) byte { return byte(s.check>>(i%8*8)) ^ byte(i/8) }

// makeFrame fills buf with frame number count of a writer.
func makeFrame(buf []byte, writer, count uint64) []byte {
	s := stamp{writer: writer, count: count, nanos: monotonic(), size: uint64(len(buf))}
	s.check = s.sum()
	for i, word := range []uint64{s.writer, s.count, s.nanos, s.size, s.check} {
		binary.NativeEndian.PutUint64(buf[8*i:], word)
	}
	for i := stampSize; i < len(buf); i++ {
		buf[i] = s.pattern(i)
	}
	return buf
}

// checkFrame returns the stamp of an intact frame.
func checkFrame(buf []byte) (stamp, error) {
	if len(buf) < stampSize {
		return stamp{}, fmt.Errorf("frame of %d bytes, want at least %d", len(buf), stampSize)
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(buf[8*i:]) }
	s := stamp{word(0), word(1), word(2), word(3), word(4)}
	if s.size != uint64(len(buf)) || s.check != s.sum() {
		return s, fmt.Errorf("frame of %d bytes: damaged stamp %+v", len(buf), s)
	}
	for i := stampSize; i < len(buf); i++ {
		if buf[i] != s.pattern(i) {
			return s, fmt.Errorf("frame of %d bytes, writer %d count %d: byte %d is %#x, want %#x", len(buf), s.writer, s.count, i, buf[i], s.pattern(i))
		}
	}
	return s, nil
}

// order checks the frames of one reader: sequence numbers always increase, and so do the counts of each writer.
type order struct {
	seq    uint64
	counts map[uint64]uint64
}

func (o *order) accept(seq uint64, s stamp) error {
	if seq <= o.seq {
		return fmt.Errorf("sequence %d after %d", seq, o.seq)
	}
	if o.counts == nil {
		o.counts = map[uint64]uint64{}
	}
	if before := o.counts[s.writer]; s.count <= before {
		return fmt.Errorf("writer %d: count %d after %d", s.writer, s.count, before)
	}
	o.seq, o.counts[s.writer] = seq, s.count
	return nil
}
