package ring

import (
	"errors"
	"fmt"
	"io"
	"time"

	"achbridge/localach"
	"achbridge/wire"
)

// CopiedInline is the size, in bytes, of the largest frame that is copied while the link's lock is held. Its copy takes 10 µs.
const CopiedInline = 64 << 10

// errCopying is returned while a goroutine copies a large frame out of its ring.
var errCopying = errors.New("the frame is being copied")

// ErrTooLarge is the error of a frame that is larger than achbridge carries.
var ErrTooLarge = errors.New("the frame is too large")

// Refusal is a frame that is in the ring and cannot be sent.
type Refusal struct {
	Seq  uint64
	Size int // bytes
	err  error
}

func (r *Refusal) Error() string { return r.err.Error() }
func (r *Refusal) Unwrap() error { return r.err }

// largeCopy is the state of the copy of a large frame in a goroutine. A channel has at most one copy at a time.
type largeCopy struct {
	work func() // calls copyLarge; allocated once

	// Guarded by the mu of Snapshots. While busy, the memory of next and reader belong to the goroutine.
	busy          bool
	copiesStarted uint64   // number of copies started so far
	failed        error    // error of the last copy, nil on success
	dropped       bool     // nobody needs the copy any more
	waiting       []func() // called when the copy ends

	next       *Snapshot
	reader     *localach.Reader
	seq        uint64
	lastSeenAt time.Duration
}

// beginLarge starts a copy of frame seq or a newer one into next, in a goroutine. s.mu must be held.
func (s *Snapshots) beginLarge(next *Snapshot, seq uint64, seen time.Duration) {
	c := &s.large
	c.busy, c.failed, c.dropped = true, nil, false
	c.copiesStarted++
	c.next, c.reader, c.seq, c.lastSeenAt = next, s.reader, seq, seen
	s.res.Spawn(c.work)
}

// await calls done when the current copy ends, or at once if there is none. done must be quick and must not call Snapshots. The
// result is the number of the copy, for ended.
func (s *Snapshots) await(done func()) (copy uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.large.busy {
		s.large.waiting = append(s.large.waiting, done)
	} else {
		done()
	}
	return s.large.copiesStarted
}

// ended reports whether a copy, given by its number from await, has ended. failed is its error if it was the last one.
func (s *Snapshots) ended(copy uint64) (ended bool, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.large.busy {
		return s.large.copiesStarted != copy, nil
	}
	return true, s.large.failed
}

// SnapshotRequest is one link's request for the newest copy of a channel. While a large frame is being copied, the request
// keeps asking for that frame, since a stream of newer frames would starve it. The zero value is ready for use. The link's
// lock guards it.
type SnapshotRequest struct {
	copying bool    // the next frame is being copied out of the ring
	newest  Arrival // the newest frame when the copy started
	awaited uint64  // number of the copy, from await
}

// Copying reports whether the request waits for a copy, or for a Take after its end.
func (r *SnapshotRequest) Copying() bool { return r.copying }

// Ready reports whether Take would not wait for a copy.
func (r *SnapshotRequest) Ready(s *Snapshots) bool {
	if !r.copying {
		return true
	}
	ended, _ := s.ended(r.awaited)
	return ended
}

// Forget cancels the request.
func (r *SnapshotRequest) Forget() { r.copying = false }

// Take returns frame newest or a later one. The caller must release it. While the frame is being copied, Take returns a nil
// snapshot and a nil error, and done is called when the copy ends. at is the frame that the snapshot was requested for: newest,
// or that of the copy. The errors are those of localach.Reader.TryNext and of Share.Take, and a *Refusal if the frame cannot
// be sent at all.
func (r *SnapshotRequest) Take(s *Snapshots, newest Arrival, done func()) (snapshot *Snapshot, at Arrival, err error) {
	at = newest
	if r.copying {
		ended, failed := s.ended(r.awaited)
		if failed != nil {
			r.copying = false
			return nil, at, failed
		}
		if !ended {
			return nil, at, nil
		}
		at = r.newest
	}
	snapshot, err = s.take(at.Seq, at.CapturedAt)
	if r.copying = err == errCopying; r.copying {
		r.newest, r.awaited = at, s.await(done)
		return nil, at, nil
	}
	return snapshot, at, err
}

// CapturedFor returns the capture time of s for a link that requested arrival at. For a command it is the time in at, since
// another link may have caused the copy. Otherwise it is s.CapturedAt.
func (s *Snapshot) CapturedFor(command bool, at Arrival) time.Duration {
	switch {
	case !command:
		return s.CapturedAt
	case s.Seq > at.Seq:
		return at.NextCapturedAt
	}
	return at.CapturedAt
}

// copyLarge copies the frame of s.large and makes it the newest snapshot. It reads the size before it takes memory, since any
// local user may claim a size.
func (s *Snapshots) copyLarge() {
	c := &s.large
	next, r := c.next, c.reader
	began := s.res.Now()
	n, err := s.res.Large.Read(r.TryNext, func(n int) ([]byte, error) {
		if err := s.grow(next, n); err != nil {
			return nil, err
		}
		began = s.res.Now()
		return next.Data[:cap(next.Data)], nil
	})

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.keep(next)
		c.failed = s.failure(r, n, err)
	case c.dropped || s.Share.Evicted():
		s.keep(next)
	default:
		seen := c.lastSeenAt
		if r.Seq() > c.seq {
			seen = began // the frame was put after the watcher polled
		}
		s.accept(next, r.Seq(), n, seen)
	}
	c.busy, c.next, c.reader = false, nil, nil
	for _, done := range c.waiting {
		done()
	}
	clear(c.waiting) // drop the references to links
	c.waiting = c.waiting[:0]
}

// failure converts err to the error that take returns, and records a refusal. s.mu must be held.
func (s *Snapshots) failure(r *localach.Reader, size int, err error) error {
	err = Refused(r, size, err)
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		s.refused = refusal
	}
	return err
}

// Refused returns a *Refusal if err means that the frame found by r can never be sent, and makes r skip that frame. It returns
// other errors unchanged.
func Refused(r *localach.Reader, size int, err error) error {
	switch {
	case (errors.Is(err, io.ErrShortBuffer) || errors.Is(err, localach.ErrHole)) && size > wire.MaxFrame:
		err = fmt.Errorf("%w: it has %d MiB, achbridge carries %d; have its publisher put smaller ones", ErrTooLarge, size>>20, wire.MaxFrame>>20)
	case errors.Is(err, localach.ErrHole):
	default:
		return err
	}
	r.Skip()
	return &Refusal{Seq: r.Seq(), Size: size, err: err}
}

// HugeFrame is the minimum size, in bytes, of frames that are copied and compressed one at a time. Each uses a CPU for
// milliseconds.
const HugeFrame = 4 << 20

// Semaphore allows one huge frame at a time to be copied or compressed. A nil Semaphore does not limit.
type Semaphore chan struct{}

// NewSemaphore returns a free semaphore.
func NewSemaphore() Semaphore { return make(Semaphore, 1) }

// enter acquires the semaphore for a frame of size bytes if it is huge. leave releases it.
func (c Semaphore) enter(size int) (leave func()) {
	if c == nil || size < HugeFrame {
		return func() {}
	}
	c <- struct{}{}
	return func() { <-c }
}

// Read reads a frame of unknown size. It calls read with nil to get the size, and then with the result of buffer for that
// size. For a huge frame it blocks until no other one is copied or compressed.
func (c Semaphore) Read(read func([]byte) (int, error), buffer func(size int) ([]byte, error)) (n int, err error) {
	leave := func() {}
	n, err = read(nil)
	for tries := 0; errors.Is(err, io.ErrShortBuffer) && n <= wire.MaxFrame && tries < 3; tries++ { // repeat if a larger frame was put meanwhile
		leave()
		leave = c.enter(n)
		var buf []byte
		if buf, err = buffer(n); err == nil {
			n, err = read(buf)
		}
	}
	leave()
	return n, err
}
