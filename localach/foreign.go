package localach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrForeign means that a channel was made with another kind of Ach, and that this program cannot share it. The errors for each kind
// wrap ErrForeign. The channel may be in use by other programs, so it must not be removed. For a channel of Ach 1.x, calls that would
// write return ErrReadOnly. If even reading is not safe, opening the channel returns another error that wraps ErrAch1x.
var (
	ErrForeign   = errors.New("channel of another kind of Ach")
	ErrAch1x     = fmt.Errorf("%w: a program made it with Ach 1.x", ErrForeign)
	ErrAch32Bit  = fmt.Errorf("%w: a 32-bit program made it", ErrForeign)
	ErrOtherLibc = fmt.Errorf("%w: a program with another C library made it", ErrForeign)

	// ErrReadOnly means that the channel can be read, and that this call would write into it.
	ErrReadOnly = fmt.Errorf("%w; achbridge can read it, but never writes into it", ErrAch1x)

	errAch1xPlainLock = fmt.Errorf("%w; a process that dies with its lock stops all others, and only x86-64 can read without the lock", ErrAch1x)
	errAch1xLock      = fmt.Errorf("%w; its lock is of an unknown kind", ErrAch1x)
)

// Offsets of the fields by which the kinds of Ach differ (ach-facts.md, 2.2 to 2.7, and ach-kernel.md).
const (
	atClock       = 136 // clock of the condition variable in Ach 2; always 0 in 1.x
	atMutexKind   = mutexOffset + 16
	mutexKindV1   = 0x80 // process-shared, neither robust nor priority-inheriting: Ach 1.0 and 1.1
	mutexKindV2   = 0xb0 // process-shared, robust and priority-inheriting: Ach 1.2 and 2
	kindAuxiliary = 0x03 // bits of the mutex's type, which is not 0 in debug builds of Ach
)

// kind has the differences between channels of Ach 2 and of versions 1.x.
type kind struct {
	ach1x     bool // made with Ach 1.x: frames are split at the end of the ring
	plainLock bool // made with Ach 1.0 or 1.1: if a process dies while it holds the lock, the lock stays taken
}

// whyForeign returns the reason why the lock of an open channel looks like one of another kind of Ach. It examines the file that
// has the channel's name now: the file may have been initialised again by another Ach, or truncated. It returns nil if the file is
// not the reason.
func (c *Channel) whyForeign() error {
	file, err := c.dir.openFile(c.name)
	if err != nil {
		return nil
	}
	defer file.Close()
	h, _, err := readHeader(file, c.name)
	if err == nil && h.kind != c.kind {
		return ErrReinitialised
	}
	return err
}

// kindOf returns the kind of a channel by its header, which is one of a 64-bit Ach. It returns ErrOtherLibc if its mutex and
// condition variable are not those of glibc, and an error that wraps ErrAch1x if it cannot be read safely.
func kindOf(h *[headerBytes]byte) (kind, error) {
	mutex := word(h, atMutexKind) &^ kindAuxiliary
	if mutex == mutexKindV1 {
		if !readsLockless() {
			return kind{}, errAch1xPlainLock
		}
		return kind{ach1x: true, plainLock: true}, nil
	}
	if word(h, atClock) != 0 {
		return kind{}, nil // no check of the mutex here: each locking checks it
	}
	switch monotonic, known := condClock(h); {
	case !known:
		return kind{}, ErrOtherLibc
	case monotonic && mutex != mutexKindV2: // not Ach 2, which stores the clock at atClock
		return kind{}, errAch1xLock
	case monotonic:
		return kind{ach1x: true}, nil
	}
	return kind{}, nil
}

// condClock reports whether the condition variable uses CLOCK_MONOTONIC, in three layouts of glibc. known is false if the
// variable has none of these layouts, or could have two that contradict each other. The number of waiters, which shares a word
// with the clock, is ignored.
func condClock(h *[headerBytes]byte) (monotonic, known bool) {
	cond := func(offset int) uint32 { return word(h, condOffset+offset) }
	const sharedBit, clockBit = 1, 2
	if cond(32) == math.MaxUint32 && cond(36) == math.MaxUint32 { // before 2.25: __mutex, which is ~0 if it is process-shared
		return cond(40)&1 != 0, true // __nwaiters
	}
	until240, since241 := cond(36), cond(28) // __wrefs
	isUntil240 := until240&sharedBit != 0
	isSince241 := since241&sharedBit != 0 && cond(40) == 0 && cond(44) == 0 // two words that are unused since 2.41
	switch {
	case isUntil240 && isSince241 && (until240^since241)&clockBit != 0:
		return false, false
	case isUntil240:
		return until240&clockBit != 0, true
	case isSince241:
		return since241&clockBit != 0, true
	}
	return false, false
}

func word(h *[headerBytes]byte, offset int) uint32 { return binary.NativeEndian.Uint32(h[offset:]) }

// is32Bit reports whether a header is one of a 32-bit program, on x86 or ARM, whose fields have other sizes and offsets.
func is32Bit(h *[headerBytes]byte, name string, size int64) bool {
	for _, layout := range []struct{ name, counts, empty int }{{8, 76, 312}, {8, 80, 320}} {
		length, frames, data := word(h, 4), word(h, layout.counts), word(h, layout.counts+4)
		named := string(h[layout.name:layout.name+len(name)+1]) == name+"\x00"
		if named && frames > 0 && int64(length) <= size && uint64(length) == uint64(layout.empty)+uint64(frames)*16+uint64(data) {
			return true
		}
	}
	return false
}
