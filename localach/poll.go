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
	period       time.Duration // polling period while nothing is expected
	expected     expected      // the next put, if it can be predicted
}

// isExpected reports whether s is polled at its own times and not at the common ticks.
func (s *slot) isExpected() bool { return s.expected.at != 0 }

// nextPoll returns the time of the next poll after a poll at now without a new frame. Long before the next put is expected, the pause
// is that of a channel whose puts cannot be predicted, or of a silent channel if the prediction is sure.
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
	minPause = 50 * time.Microsecond
	approach = 100 * time.Microsecond
)

// savesPoll reports whether a poll of s now, while the loop is awake for other channels, saves a separate poll before the expected
// one.
func (s *slot) savesPoll(now time.Duration) bool {
	return now < s.expected.first && now-s.polledAt >= s.period/4 && s.due < s.expected.first
}

// lastSeqIn returns the address of last_seq in a mapping.
func lastSeqIn(base unsafe.Pointer) *uint64 { return (*uint64)(unsafe.Add(base, lastSeqOffset)) }

// pollSlots loads last_seq of each slot that is due at now. It also loads slots without an expected put that are due within slack, and
// others if that saves a separate poll. It appends to changed the index of each slot whose last_seq has changed, or whose memory
// is gone (lastSeq is then nil). It survives mappings of truncated files.
//
// It is written in Go, not C, because it runs thousands of times a second in an otherwise idle process: a cgo call would wake
// the runtime's monitor thread each time, which costs more than everything else.
func pollSlots(slots []slot, now, slack time.Duration, changed []int) []int {
	for at := 0; at < len(slots); at++ {
		changed, at = pollFrom(slots, at, now, slack, changed)
	}
	return changed
}

// pollFrom does what pollSlots does, beginning at a slot. It stops at a slot whose memory is gone, and returns its index.
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
