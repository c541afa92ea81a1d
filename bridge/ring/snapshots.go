package ring

import (
	"errors"
	"io"
	"slices"
	"time"

	"achbridge/bridge/lock"
	"achbridge/localach"
	"achbridge/wire"
)

// Snapshots copies the newest frames of one local channel out of its ring, once for all links that send them. It keeps the
// newest copy for links that send it later. A call never waits for the channel's lock and takes at most 10 µs, since frames of
// more than CopiedInline bytes are copied in a goroutine. Safe for concurrent use.
type Snapshots struct {
	Share *Share // the memory of the copies
	res   *Resources
	ch    *localach.Channel

	mu          lock.Mutex[lock.Snapshots] // guards what follows
	users       []*User
	reader      *localach.Reader
	newest      *Snapshot // nil without a copy
	refused     *Refusal  // the newest frame that cannot be sent, or nil
	unused      []*Snapshot
	unusedBytes [][]byte // memory for compressed frames
	large       largeCopy
}

// Resources are shared by the snapshots of all channels.
type Resources struct {
	Compressor *Compressor
	Budget     *Budget
	Large      Semaphore            // for the largest frames
	Spawn      func(func())         // calls a function in another goroutine
	Now        func() time.Duration // clock for capture times and for the time that compression takes
}

// Number of buffers that are kept for reuse. This suffices while all links send the same frame.
const (
	maxUnused      = 1
	maxUnusedBytes = len(Codecs)
)

// User is a link that may take snapshots of a channel.
type User struct{ wake func() }

// Snapshot is the copy of one frame. It is valid and not modified until every link that took it has released it.
type Snapshot struct {
	Data       []byte
	Seq        uint64
	CapturedAt time.Duration // 0 means unknown

	of         *Snapshots
	users      int                            // reference count: links, compressions, and of while this is its newest; guarded by of.mu
	compressed [len(Codecs)]sharedCompression // in the order of Codecs; guarded by of.mu
}

// NewSnapshots returns the Snapshots of a channel.
func NewSnapshots(ch *localach.Channel, res *Resources) *Snapshots {
	s := &Snapshots{ch: ch, res: res, reader: ch.Reader()}
	s.Share = res.Budget.Share(s.evict)
	s.large.work = s.copyLarge
	return s
}

// take returns frame seq or a newer one. The caller must release it. seen is the capture time of frame seq (0 means unknown),
// which the first caller sets for all. A frame newer than seq counts as captured now. take returns the errors of
// localach.Reader.TryNext and of Share.Take. It returns errCopying while the frame is being copied, and a *Refusal if the frame
// cannot be sent at all.
func (s *Snapshots) take(seq uint64, seen time.Duration) (*Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.newest != nil && s.newest.Seq >= seq:
	case s.refused != nil && s.refused.Seq >= seq:
		return nil, s.refused
	case s.large.busy:
		return nil, errCopying
	default:
		if err := s.copy(seq, seen); err != nil {
			return nil, err
		}
	}
	s.newest.users++
	return s.newest, nil
}

// copy copies frame seq or a newer one and makes it the newest snapshot. If copy fails, the previous one stays. s.mu must be
// held.
func (s *Snapshots) copy(seq uint64, seen time.Duration) error {
	next := s.buffer()
	n, err := s.reader.TryNext(next.Data[:min(cap(next.Data), CopiedInline)])
	for tries := 0; errors.Is(err, io.ErrShortBuffer) && n <= CopiedInline && tries < 3; tries++ { // repeat if a larger frame was put meanwhile
		if err = s.grow(next, n); err == nil {
			n, err = s.reader.TryNext(next.Data[:min(cap(next.Data), CopiedInline)])
		}
	}
	if errors.Is(err, io.ErrShortBuffer) && n > CopiedInline && n <= wire.MaxFrame {
		s.beginLarge(next, seq, seen)
		return errCopying
	}
	if err != nil {
		s.keep(next)
		return s.failure(s.reader, n, err)
	}
	if s.reader.Seq() > seq {
		seen = s.res.Now() // the frame was put after the watcher polled
	}
	s.accept(next, s.reader.Seq(), n, seen)
	return nil
}

// accept makes next the newest snapshot. s.mu must be held.
func (s *Snapshots) accept(next *Snapshot, seq uint64, size int, capturedAt time.Duration) {
	next.Data, next.Seq, next.CapturedAt, next.users = next.Data[:size], seq, capturedAt, 1
	if s.newest != nil {
		s.drop(s.newest)
	}
	s.newest = next
}

// grow ensures that next has memory for a frame of n bytes.
func (s *Snapshots) grow(next *Snapshot, n int) error {
	if cap(next.Data) >= n {
		return nil
	}
	s.Share.Give(cap(next.Data))
	next.Data = nil
	want := max(n, min(n+n/8, wire.MaxFrame)) // the next frames may be a little larger
	if err := s.Share.Take(want); err != nil {
		return err
	}
	next.Data = make([]byte, want)
	return nil
}

// buffer returns an unused or a new Snapshot for the next frame. s.mu must be held.
func (s *Snapshots) buffer() *Snapshot {
	n := len(s.unused)
	if n == 0 {
		return &Snapshot{of: s}
	}
	next := s.unused[n-1]
	s.unused = s.unused[:n-1]
	return next
}

// Join adds a link that sends the channel. The link must call Leave at its end. The given function wakes the link when it must
// check whether it may keep its snapshot.
func (s *Snapshots) Join(wake func()) *User {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &User{wake}
	s.users = append(s.users, u)
	return u
}

// Leave removes a link. After the last link, it returns all memory to the budget. The next request then copies the newest frame
// again.
func (s *Snapshots) Leave(u *User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users = slices.DeleteFunc(s.users, func(o *User) bool { return o == u })
	if len(s.users) == 0 {
		s.forget()
		s.refused = nil
	}
}

// Used reports whether any link sends the channel.
func (s *Snapshots) Used() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.users) > 0
}

// forget returns the memory that no link uses to the budget. s.mu must be held.
func (s *Snapshots) forget() {
	s.large.dropped = s.large.busy
	s.reader = s.ch.Reader() // a new reader reads the forgotten frame again
	if s.newest != nil {
		s.drop(s.newest)
	}
	s.newest = nil
	for _, old := range s.unused {
		s.Share.Give(cap(old.Data))
	}
	for _, buf := range s.unusedBytes {
		s.Share.Give(cap(buf))
	}
	s.unused, s.unusedBytes = nil, nil
}

// evict returns the memory that no link uses to the budget, and wakes the links so that they release the rest.
func (s *Snapshots) evict() {
	s.mu.Lock()
	s.forget()
	users := slices.Clone(s.users)
	s.mu.Unlock()
	for _, u := range users {
		u.wake()
	}
}

// Release releases the snapshot and its compressed forms. Each link calls it once for each take.
func (s *Snapshot) Release() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.drop(s)
}

// drop decrements the reference count of old, and keeps or frees its memory after the last reference. s.mu must be held.
func (s *Snapshots) drop(old *Snapshot) {
	if old.users--; old.users > 0 {
		return
	}
	if old.users < 0 {
		panic("snapshot released more often than taken")
	}
	for i := range old.compressed {
		c := &old.compressed[i]
		if c.Data != nil {
			s.keepBytes(c.Data)
		}
		*c = sharedCompression{waiting: c.waiting[:0], work: c.work}
	}
	s.keep(old)
}

// keep keeps a snapshot's memory for reuse, or returns it to the budget if enough is kept already. s.mu must be held.
func (s *Snapshots) keep(old *Snapshot) {
	if len(s.unused) >= maxUnused || s.Share.Evicted() {
		s.Share.Give(cap(old.Data))
		old.Data = nil
		return
	}
	s.unused = append(s.unused, old)
}

// keepBytes keeps or returns the memory of a compressed frame, like keep. s.mu must be held.
func (s *Snapshots) keepBytes(buf []byte) {
	if len(s.unusedBytes) >= maxUnusedBytes || s.Share.Evicted() {
		s.Share.Give(cap(buf))
		return
	}
	s.unusedBytes = append(s.unusedBytes, buf)
}

// Large returns the semaphore for the largest frames.
func (s *Snapshots) Large() Semaphore { return s.res.Large }
