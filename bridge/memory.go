package bridge

import (
	"errors"
	"fmt"

	"achbridge/bridge/lock"
)

// memory limits the memory of all copies of local channels' frames to maxFrames. When that is
// used up, the channel that holds most is refused. So the huge frames of one channel do not
// cost the others. Safe for concurrent use.
type memory struct {
	limit int

	mu      lock.Mutex[lock.Leaf]
	used    int
	streams int // part of used for mode every: at most half of limit, since it cannot be freed on demand
	holders map[*stock]struct{}
}

// stock is the share of a memory that one channel holds.
type stock struct {
	in    *memory
	evict func() // frees as much as possible; called in a goroutine of its own

	// Guarded by in.mu.
	held    int
	streams int  // part of held for mode every
	out     bool // the channel is refused until it has given back everything but streams
}

var (
	errTooMuch    = errors.New("too much")
	errNoMemory   = fmt.Errorf("%w: no memory for its frames", errTooMuch)
	errMakingRoom = errors.New("memory is being made free for its frames")
)

func newMemory(limit int) *memory { return &memory{limit: limit, holders: make(map[*stock]struct{})} }

// stock returns the stock of a channel. evict is called when the channel must free its memory.
func (m *memory) stock(evict func()) *stock { return &stock{in: m, evict: evict} }

// take takes n bytes. It returns errNoMemory when this channel is refused, and errMakingRoom
// when another channel is; then the caller tries again soon.
func (s *stock) take(n int) error {
	m := s.in
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.out && s.held > s.streams {
		return s.refusal(n)
	}
	s.out = false
	if m.used+n <= m.limit {
		s.add(n)
		return nil
	}
	worst := m.worst(s, n)
	if worst == s {
		return s.refusal(n)
	}
	if !worst.out {
		worst.out = true
		go worst.evict()
	}
	return errMakingRoom
}

// takeStream is take for mode every.
func (s *stock) takeStream(n int) error {
	m := s.in
	m.mu.Lock()
	full := m.streams+n > m.limit/2
	if !full {
		m.streams += n
	}
	m.mu.Unlock()
	if full {
		return s.refusal(n)
	}
	err := s.take(n)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.streams -= n
		return err
	}
	s.streams += n
	return nil
}

func (s *stock) giveStream(n int) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.add(-n)
	s.streams -= n
	s.in.streams -= n
}

// give gives n bytes back; a negative n takes, whatever the limit.
func (s *stock) give(n int) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.add(-n)
}

// evicted reports whether the channel must give back what it holds.
func (s *stock) evicted() bool {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	return s.out
}

// add needs in.mu.
func (s *stock) add(n int) {
	s.held += n
	s.in.used += n
	if s.held > 0 {
		s.in.holders[s] = struct{}{}
	} else {
		delete(s.in.holders, s)
	}
}

// worst returns the channel to refuse when s wants n more bytes: the one that would hold most
// and can free something. Needs m.mu.
func (m *memory) worst(s *stock, n int) *stock {
	worst, most := s, s.held+n
	for o := range m.holders {
		if o != s && o.held > most && o.held > o.streams {
			worst, most = o, o.held
		}
	}
	return worst
}

func (s *stock) refusal(n int) error {
	return fmt.Errorf("%w: %d MiB more beside the %d it has are too much, all channels of this host together may have %d; make its frames smaller, or have fewer large channels read",
		errNoMemory, n>>20, s.held>>20, s.in.limit>>20)
}
