package hub

import (
	"math"
	"slices"
	"sync"
	"time"
)

// flow keeps the bytes bounded that both connections to a hub have unacknowledged. The
// connection of small frames has the right of way: the other one counts both.
type flow struct {
	start time.Time

	mu        sync.Mutex
	window    window
	sockets   []*socket
	delivered int64
	limited   bool // somebody waited since the last round

	smallPut time.Duration // when a small frame was put last
}

// active is for how long after a frame those of the other connection leave it room.
const active = 100 * time.Millisecond

// look is how often one who waits looks for acknowledgements.
const look = time.Millisecond

func newFlow() *flow { return &flow{start: time.Now(), window: newWindow()} }

func (f *flow) now() time.Duration { return time.Since(f.start) }

// add takes s into the sum.
func (f *flow) add(s *socket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sockets = append(f.sockets, s)
}

// room is how many bytes may be written to s now. A first segment may always be written
// where nothing is unacknowledged.
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

// piece is how much of a long message is written at once: where there is room for little, whole segments,
// since a receiver goes by the size of those that came.
func (f *flow) piece(s *socket) int {
	room := f.room(s)
	if room < firstWindow {
		return segment
	}
	return room
}

// wait blocks until n bytes, or as many as the window ever lets go at once, may be written, or over
// returns an error, which it is asked for every millisecond.
func (f *flow) wait(over func() error, s *socket, n int) error {
	for f.room(s) < min(n, segment) {
		if err := over(); err != nil {
			return err
		}
		select {
		case <-s.closed:
			return errNotConnected(nil)
		case <-time.After(look):
		}
	}
	return nil
}

// put says that a small frame is put now: large ones leave it room for a while.
func (f *flow) put() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.smallPut = f.now()
}

// unacked is how many bytes both connections have written that the hub has not acknowledged.
func (f *flow) unacked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := 0
	for _, s := range f.sockets {
		sum += f.settle(s)
	}
	return sum
}

// least is the shortest round trip that was seen, 0 before the first.
func (f *flow) least() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.window.least
}

// sinceHeard is for how long nothing was heard; very long when nothing ever was.
func (f *flow) sinceHeard() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	since := time.Duration(math.MaxInt64)
	for _, s := range f.sockets {
		since = min(since, f.now()-time.Duration(s.heard.Load()))
	}
	return since
}

// takes reports whether the connection of small frames has lately brought a message, or that of large ones.
func (f *flow) takes(small bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.sockets, func(s *socket) bool {
		at := time.Duration(s.brought.Load())
		return s.small == small && at > 0 && f.now()-at < active
	})
}

// settle sees what s has got acknowledged since the last look, and returns what it has not.
// Needs f.mu.
func (f *flow) settle(s *socket) int {
	n, err := s.outstanding()
	if err != nil {
		return 0 // it is closed
	}
	now := f.now()
	acked := s.wrote - int64(n)
	if acked > s.acked {
		f.delivered += acked - s.acked
		s.acked = acked
		s.heard.Store(int64(now))
	}
	if m := s.mark; m.bytes > 0 && s.acked >= m.upTo {
		f.window.take(round{Now: now, Took: now - m.at, Wrote: m.bytes, Delivered: int(f.delivered - m.delivered), Limited: f.limited})
		s.mark.bytes, f.limited = 0, false
	}
	return n
}

// written says that s has written n bytes.
func (f *flow) written(s *socket, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle(s)
	s.wrote += int64(n)
	if s.mark.bytes == 0 {
		s.mark = mark{upTo: s.wrote, at: f.now(), delivered: f.delivered, bytes: n}
	}
}
