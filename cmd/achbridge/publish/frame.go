package publish

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Offsets of the fields, each of 8 bytes.
const (
	countAt = 0  // field count: number of the frame, equal to its sequence number unless another program writes too
	clockAt = 8  // field clock: CLOCK_MONOTONIC, ns
	sineAt  = 16 // field sine: a sine of the clock, from -1 to 1
)

const sinePeriod = 5 * time.Second

// newFrame returns a frame of random bytes, which do not compress.
func newFrame(size int) []byte {
	frame := make([]byte, size)
	_, _ = rand.Read(frame) // cannot fail
	return frame
}

// fill writes the fields that fit into a frame.
func fill(frame []byte, count uint64) {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail, since clock and pointer are valid
	clock := now.Nano()
	phase := float64(clock%sinePeriod.Nanoseconds()) / float64(sinePeriod.Nanoseconds())
	put := func(at int, value uint64) {
		if at+8 <= len(frame) {
			binary.LittleEndian.PutUint64(frame[at:], value)
		}
	}
	put(countAt, count)
	put(clockAt, uint64(clock))
	put(sineAt, math.Float64bits(math.Sin(2*math.Pi*phase)))
}
