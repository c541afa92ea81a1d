package hub

import (
	"math"
	"slices"
	"sync"
	"time"
)

// flow bounds the unacknowledged bytes of both connections to a hub. Small frames have priority:
// the connection of large frames counts the bytes of both.
type flow struct {
	start time.Time

	mu        sync.Mutex
	window    window
	sockets   []*socket
	delivered int64
	limited   bool // a writer has waited since the last round

	smallPut time.Duration // when a small frame was last put
}

// active is how long after a frame the other connection leaves room for further ones.
const active = 100 * time.Millisecond

// pollEvery is the interval at which a waiting writer checks for acknowledgements.
const pollEvery = time.Millisecond

func newFlow() *flow { return &flow{start: time.Now(), window: newWindow()} }

func (f *flow) now() time.Duration { return time.Since(f.start) }

// add includes s in the sum.
func (f *flow) add(s *socket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sockets = append(f.sockets, s)
}

// room returns how many bytes may be written to s now. The first segment may always be written if
// no bytes are unacknowledged.
func (f *flow) room(s *socket) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := 0
	for _, other := range f.sockets {
		n := f.settle(other)
		if other == s || !s.small {
			sum += n
		}
	}
	size := f.window.size
	if !s.small && f.now()-f.smallPut < active {
		size = max(size-segment, 2*segment)
	}
	if sum == 0 {
		return max(size, segment)
	}
	if room := size - sum; room >= min(segment, size/2) {
		return room
	}
	f.limited = true
	return 0
}

// piece returns how much of a long message to write at once. If there is little room it is one
// whole segment, since receivers adapt to the size of the segments that arrive.
func (f *flow) piece(s *socket) int {
	room := f.room(s)
	if room < firstWindow {
		return segment
	}
	return room
}

// wait blocks until n bytes may be written, or at least a segment. It calls over every millisecond
// and returns its error.
func (f *flow) wait(over func() error, s *socket, n int) error {
	for f.room(s) < min(n, segment) {
		if err := over(); err != nil {
			return err
		}
		select {
		case <-s.closed:
			return errNotConnected(nil)
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// put records that a small frame is put now, so that large frames leave room for a while.
func (f *flow) put() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.smallPut = f.now()
}

// unacked returns how many bytes of both connections the hub has not acknowledged.
func (f *flow) unacked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := 0
	for _, s := range f.sockets {
		sum += f.settle(s)
	}
	return sum
}

// least returns the shortest measured round trip, 0 before the first.
func (f *flow) least() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.window.least
}

// sinceReceived returns the time since data last arrived from the hub on any connection; the maximum duration
// without connections.
func (f *flow) sinceReceived() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	since := time.Duration(math.MaxInt64)
	for _, s := range f.sockets {
		since = min(since, f.now()-time.Duration(s.lastReceivedAt.Load()))
	}
	return since
}

// takes reports whether the connection of small frames has recently received a message, or if
// small is false that of large frames.
func (f *flow) takes(small bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.sockets, func(s *socket) bool {
		at := time.Duration(s.receivedAt.Load())
		return s.small == small && at > 0 && f.now()-at < active
	})
}

// settle records the new acknowledgements of s, and returns its number of unacknowledged bytes.
// f.mu must be held.
func (f *flow) settle(s *socket) int {
	n, err := s.outstanding()
	if err != nil {
		return 0 // the socket is closed
	}
	now := f.now()
	acked := s.wrote - int64(n)
	if acked > s.acked {
		f.delivered += acked - s.acked
		s.acked = acked
		s.lastReceivedAt.Store(int64(now))
	}
	if m := s.mark; m.bytes > 0 && s.acked >= m.upTo {
		f.window.take(round{Now: now, Took: now - m.at, Delivered: int(f.delivered - m.delivered), Limited: f.limited})
		s.mark.bytes, f.limited = 0, false
	}
	return n
}

// written records that n bytes were written to s.
func (f *flow) written(s *socket, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle(s)
	s.wrote += int64(n)
	if s.mark.bytes == 0 {
		s.mark = mark{upTo: s.wrote, at: f.now(), delivered: f.delivered, bytes: n}
	}
}
