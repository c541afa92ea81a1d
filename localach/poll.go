package localach

import (
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"
)

// A slot is one watched last_seq.
type slot struct {
	lastSeq      *uint64       // in the channel's mapping; nil: empty, or its memory is gone
	lastSeen     uint64        // last_seq when last looked
	wentBack     bool          // it was more at the look before that: the channel was initialised again
	due          time.Duration // of the next look
	polledAt     time.Duration // time of the last look
	prevPolledAt time.Duration // time of the look before that
	period       time.Duration // between looks without a window
	window       window        // of the next frame, if it can be predicted
}

// hasWindow reports whether s has a window. Then it is polled at its own times, not on the common ticks.
func (s *slot) hasWindow() bool { return s.window.to != 0 }

// nextPoll is the time of the next look after a look at now that found nothing. In the window there is no pause. Before and after
// it the pause is that of a channel without a window; before a sure window it is that of a silent channel.
func (s *slot) nextPoll(now time.Duration) time.Duration {
	switch w := s.window; {
	case now < w.from && w.sure:
		return min(w.from, now+pollSlowest)
	case now < w.from-approach:
		return min(w.from-approach, now+s.period)
	case now < w.from: // some frames come before an unsure window
		return w.from
	case now < w.to:
		return now
	case w.to != 0: // the frame may come soon
		return now + min(s.period, max(now-w.from, minPause))
	}
	return now + s.period
}

const (
	minPause = 50 * time.Microsecond
	approach = 100 * time.Microsecond
)

// savesPoll reports whether a look now, while the loop is awake for other channels, spares s a look of its own before its window.
func (s *slot) savesPoll(now time.Duration) bool {
	return now < s.window.from && now-s.polledAt >= s.period/4 && s.due < s.window.from
}

// lastSeqIn is where last_seq lies in a mapping.
func lastSeqIn(base unsafe.Pointer) *uint64 { return (*uint64)(unsafe.Add(base, lastSeqOffset)) }

// pollSlots loads last_seq of every slot that is due at now. Slots without a window are also loaded if they are due before
// slack has passed, others if that spares them a look of their own. It appends to changed the index of each slot whose last_seq has changed, or whose memory is gone (lastSeq
// is then nil). It survives mappings whose file was truncated.
//
// This is Go and not C because it runs thousands of times a second in an otherwise idle process: a cgo call would wake the
// runtime's monitor thread each time, which costs more than all the rest.
func pollSlots(slots []slot, now, slack time.Duration, changed []int) []int {
	for at := 0; at < len(slots); at++ {
		changed, at = pollFrom(slots, at, now, slack, changed)
	}
	return changed
}

// pollFrom is pollSlots from a slot on. It stops at a slot whose memory is gone, and returns its index.
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
		if s.lastSeq == nil || s.due > now && (s.hasWindow() && !s.savesPoll(now) || !s.hasWindow() && s.due > now+slack) {
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

// fault accepts the panic of the runtime for mapped memory that is gone, and repeats any other panic.
func fault(p any) {
	if _, ok := p.(interface{ Addr() uintptr }); !ok {
		panic(p)
	}
}
