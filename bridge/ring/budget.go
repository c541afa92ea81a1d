package ring

import (
	"errors"
	"fmt"
	"os"
	"time"

	"achbridge/bridge/lock"
	"achbridge/localach"
)

// Budget limits the memory of the copies of all local channels' frames. When the budget is used up, the channel that uses most
// is refused, so that its huge frames do not block the other channels. Safe for concurrent use.
type Budget struct {
	limit int // bytes

	mu       lock.Mutex[lock.Leaf] // guards what follows
	used     int
	reserved int // part of used that cannot be freed on demand: at most half of limit
	shares   map[*Share]struct{}
}

// DefaultBudget is the limit of a node's Budget, in bytes.
const DefaultBudget = 256 << 20

// Share counts the memory that one channel uses of a Budget.
type Share struct {
	budget *Budget
	evict  func() // frees as much as possible; called in its own goroutine

	// Guarded by budget.mu.
	usedBytes int  // bytes that the channel uses
	reserved  int  // bytes of these that cannot be freed on demand
	evicted   bool // the channel is refused until it has returned all but its reserved bytes
}

var (
	// ErrNoMemory is returned when the budget has no memory for a channel's frames.
	ErrNoMemory = errors.New("no memory for its frames")
	// ErrMakingRoom is returned while another channel frees memory. Try again soon.
	ErrMakingRoom = errors.New("memory is being made free for its frames")
)

// Retry intervals of a channel: after ErrNoMemory, and after an error for which IsBusy returns true.
const (
	AfterNoMemory = time.Second
	AfterBusy     = 200 * time.Microsecond
)

// IsBusy reports whether err is short-lived: the channel's lock is held, or another channel frees memory.
func IsBusy(err error) bool {
	return errors.Is(err, ErrMakingRoom) || errors.Is(err, localach.ErrBusy) || errors.Is(err, os.ErrDeadlineExceeded)
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int) *Budget { return &Budget{limit: limit, shares: make(map[*Share]struct{})} }

// Share returns a new share for a channel. evict is called when the channel must free its memory.
func (b *Budget) Share(evict func()) *Share { return &Share{budget: b, evict: evict} }

// Take takes n bytes. It returns ErrNoMemory if this channel is refused, and ErrMakingRoom if another one must free memory.
func (s *Share) Take(n int) error {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.evicted && s.usedBytes > s.reserved {
		return s.refuse(n)
	}
	s.evicted = false
	if b.used+n <= b.limit {
		s.add(n)
		return nil
	}
	largest := b.largest(s, n)
	if largest == s {
		return s.refuse(n)
	}
	if !largest.evicted {
		largest.evicted = true
		go largest.evict()
	}
	return ErrMakingRoom
}

// Reserve takes n bytes like Take, for memory that evict cannot free, such as that of mode every.
func (s *Share) Reserve(n int) error {
	b := s.budget
	b.mu.Lock()
	full := b.reserved+n > b.limit/2
	if !full {
		b.reserved += n
	}
	b.mu.Unlock()
	if full {
		return s.refuse(n)
	}
	err := s.Take(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.reserved -= n
		return err
	}
	s.reserved += n
	return nil
}

// Unreserve returns n bytes that Reserve took.
func (s *Share) Unreserve(n int) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.add(-n)
	s.reserved -= n
	s.budget.reserved -= n
}

// Give returns n bytes to the budget. A negative n takes bytes regardless of the limit.
func (s *Share) Give(n int) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.add(-n)
}

// Evicted reports whether the channel must return its memory.
func (s *Share) Evicted() bool {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.evicted
}

// add counts n more bytes, or fewer if n is negative. budget.mu must be held.
func (s *Share) add(n int) {
	s.usedBytes += n
	s.budget.used += n
	if s.usedBytes > 0 {
		s.budget.shares[s] = struct{}{}
	} else {
		delete(s.budget.shares, s)
	}
}

// largest returns the share to refuse when s needs n more bytes: that which would use most, of s and those that can free
// memory. b.mu must be held.
func (b *Budget) largest(s *Share, n int) *Share {
	largest, most := s, s.usedBytes+n
	for o := range b.shares {
		if o != s && o.usedBytes > o.reserved && o.usedBytes > most {
			largest, most = o, o.usedBytes
		}
	}
	return largest
}

func (s *Share) refuse(n int) error {
	return fmt.Errorf("%w: %d MiB more than the %d that it has, where all channels of this host together may use %d; make its frames smaller, or have fewer large channels read",
		ErrNoMemory, n>>20, s.usedBytes>>20, s.budget.limit>>20)
}

// Used returns how many bytes are taken.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
