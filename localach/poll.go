package localach

import (
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"
)

// slot is one watched last_seq.
type slot struct {
	lastSeq      *uint64       // points into the channel's mapping; nil if the slot is empty or the memory is gone
	lastSeen     uint64        // last_seq at the last poll
	wentBack     bool          // lastSeen has decreased, so the channel was initialised again
	due          time.Duration // time of the next poll
	polledAt     time.Duration // time of the last poll
	prevPolledAt time.Duration // time of the poll before
	period       time.Duration // polling period while no put is expected soon
	expected     expected      // prediction of the next put
}

// isExpected reports whether the next put is predicted. s is then polled at its own times and not at the common ticks.
func (s *slot) isExpected() bool { return s.expected.at != 0 }

// nextPoll returns the time of the next poll after a poll at now that found no new frame. Until expected.first, s is polled like a
// channel without prediction, or like a silent channel if the prediction is sure.
func (s *slot) nextPoll(now time.Duration) time.Duration {
	switch e := s.expected; {
	case now < e.first && e.sure:
		return min(e.first, now+pollSlowest)
	case now < e.first:
		return min(e.first, now+s.period)
	case now < e.at:
		return e.at
	case e.at != 0: // the frame may be put soon
		return now + min(s.period, max(now-e.at, minPause))
	}
	return now + s.period
}

const (
	minPause = 50 * time.Microsecond  // shortest time between two polls of a channel after expected.at
	approach = 100 * time.Microsecond // time from expected.first to expected.at if the prediction is not sure
)

// savesPoll reports whether polling s now, while the loop is awake for other channels, makes a later poll of s before expected.first
// unnecessary.
func (s *slot) savesPoll(now time.Duration) bool {
	return now < s.expected.first && now-s.polledAt >= s.period/4 && s.due < s.expected.first
}

// lastSeqIn returns the address of last_seq in a mapping.
func lastSeqIn(base unsafe.Pointer) *uint64 { return (*uint64)(unsafe.Add(base, lastSeqOffset)) }

// pollSlots loads last_seq of each slot that is due at now. It also loads last_seq of slots without a prediction that are due within
// slack, and of other slots if savesPoll. It appends to changed the index of each slot whose last_seq has changed, or whose mapped
// file was truncated; it sets lastSeq of the latter to nil.
//
// It is written in Go, not C, because it runs thousands of times a second in an otherwise idle process: a cgo call would wake
// the runtime's monitor thread each time, which costs more than everything else.
func pollSlots(slots []slot, now, slack time.Duration, changed []int) []int {
	for at := 0; at < len(slots); at++ {
		changed, at = pollFrom(slots, at, now, slack, changed)
	}
	return changed
}

// pollFrom does what pollSlots does, for the slots from an index on. It stops at a slot whose file was truncated, and returns its
// index.
func pollFrom(slots []slot, from int, now, slack time.Duration, into []int) (changed []int, at int) {
	changed, at = into, from
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if at < len(slots) {
			fault(recover())
			slots[at].lastSeq = nil
			changed = append(changed, at)
		}
	}()
	for ; at < len(slots); at++ {
		s := &slots[at]
		if s.lastSeq == nil || s.due > now && (s.isExpected() && !s.savesPoll(now) || !s.isExpected() && s.due > now+slack) {
			continue
		}
		s.prevPolledAt, s.polledAt = s.polledAt, now
		s.due = s.nextPoll(now)
		if seq := atomic.LoadUint64(s.lastSeq); seq != s.lastSeen {
			s.lastSeen, s.wentBack = seq, seq < s.lastSeen
			changed = append(changed, at)
		}
	}
	return changed, at
}

// fault ignores the runtime's panic for mapped memory that is gone, and repeats any other panic.
func fault(p any) {
	if _, ok := p.(interface{ Addr() uintptr }); !ok {
		panic(p)
	}
}
