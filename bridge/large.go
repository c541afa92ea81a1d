package bridge

import (
	"errors"
	"fmt"
	"io"
	"time"

	"achbridge/bridge/ring"
	"achbridge/localach"
	"achbridge/wire"
)

// copiedAtOnce is how large a frame may be that is copied while the link's pump and
// whoever else wants its lock wait: 10 µs.
const copiedAtOnce = 64 << 10

// errCopying says that a large frame is on its way out of its ring.
var errCopying = errors.New("the frame is being copied")

var errGiant = errors.New("the frame is too large")

// refusal is a frame that is in the ring and cannot be sent.
type refusal struct {
	seq  uint64
	size int
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// largeCopy is the copy of a large frame, one at a time, in a goroutine.
type largeCopy struct {
	work func() // makes it; one for the life of the channel

	// Guarded by the snapshots' mu; what is being copied belongs to the goroutine.
	busy    bool
	begun   uint64 // how many were
	failed  error  // what came of the last one
	dropped bool   // nobody wants the present one any more
	waiting []func()

	next *snapshot
	r    *localach.Reader
	seq  uint64
	seen time.Duration
}

// beginLarge needs s.mu.
func (s *snapshots) beginLarge(next *snapshot, seq uint64, seen time.Duration) {
	c := &s.large
	c.busy, c.failed, c.dropped = true, nil, false
	c.begun++
	c.next, c.r, c.seq, c.seen = next, s.r, seq, seen
	s.spawn(c.work)
}

// await has done called when the copy ends that is being made, at once when none
// is. done has to be quick, and must not call back. The number is for ended.
func (s *snapshots) await(done func()) (copy uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.large.busy {
		s.large.waiting = append(s.large.waiting, done)
	} else {
		done()
	}
	return s.large.begun
}

// ended reports whether a copy has ended, and what it failed of.
func (s *snapshots) ended(copy uint64) (ended bool, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.large.busy && s.large.begun == copy {
		return false, nil
	}
	if s.large.busy {
		return true, nil
	}
	return true, s.large.failed
}

// borrowing is one taker's way to the newest copy of a channel. A copy that is still being made is what it
// was when it was asked for first, however many newer ones come meanwhile: they would starve it.
type borrowing struct {
	copying bool         // the next frame is being copied out of the ring
	wanted  ring.Arrival // what was known when the copy was begun
	awaited uint64       // number of the copy
}

// resume returns what the next copy is to be of: what at tells, or told when the copy was begun that is awaited.
// ready is false while that is being made; err is what it failed of.
func (b *borrowing) resume(copies *snapshots, at ring.Arrival) (known ring.Arrival, ready bool, err error) {
	if !b.copying {
		return at, true, nil
	}
	if ready, err = copies.ended(b.awaited); err != nil {
		b.copying = false
	}
	return b.wanted, ready, err
}

// take is snapshots.take. Where that is errCopying, awake is called once the copy has ended.
func (b *borrowing) take(copies *snapshots, at ring.Arrival, awake func()) (*snapshot, error) {
	s, err := copies.take(at.Seq, at.CapturedAt)
	if b.copying = err == errCopying; b.copying {
		b.wanted, b.awaited = at, copies.await(awake)
	}
	return s, err
}

// capturedFor is when s was captured. For a command what others made of that is not enough: it is what at tells.
func (s *snapshot) capturedFor(command bool, at ring.Arrival) time.Duration {
	switch {
	case !command:
		return s.captured
	case s.seq > at.Seq:
		return at.NextCapturedAt
	}
	return at.CapturedAt
}

// copyLarge looks before it takes memory: the size is somebody's word.
func (s *snapshots) copyLarge() {
	c := &s.large
	next, r := c.next, c.r
	leave := func() {}
	n, err := r.TryNext(nil)
	began := s.now()
	for tries := 0; errors.Is(err, io.ErrShortBuffer) && n <= wire.MaxFrame && tries < 3; tries++ { // they may grow meanwhile
		leave()
		leave = s.huge.enter(n)
		if err = s.grow(next, n); err == nil {
			began = s.now()
			n, err = r.TryNext(next.data[:cap(next.data)])
		}
	}
	leave()

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.keep(next)
		c.failed = s.failure(r, n, err)
	case c.dropped || s.stock.evicted():
		s.keep(next)
	default:
		seen := c.seen
		if r.Seq() > c.seq {
			seen = began // put after the watcher looked
		}
		s.accept(next, r.Seq(), n, seen)
	}
	c.busy, c.next, c.r = false, nil, nil
	for _, done := range c.waiting {
		done()
	}
	clear(c.waiting) // no link is held by what it asked for
	c.waiting = c.waiting[:0]
}

// failure is what take says of err: a frame that will never do is passed over. Needs
// s.mu.
func (s *snapshots) failure(r *localach.Reader, size int, err error) error {
	if err = refused(r, size, err); err == nil {
		return nil
	}
	if no, ok := errors.AsType[*refusal](err); ok {
		s.refused = no
	}
	return err
}

// refused makes a refusal of what keeps the frame that r has found from being sent
// for ever, and has r pass it over; other errors stay.
func refused(r *localach.Reader, size int, err error) error {
	switch {
	case (errors.Is(err, io.ErrShortBuffer) || errors.Is(err, localach.ErrHole)) && size > wire.MaxFrame:
		err = fmt.Errorf("%w: it has %d MiB, achbridge carries %d; have its publisher put smaller ones", errGiant, size>>20, wire.MaxFrame>>20)
	case errors.Is(err, localach.ErrHole):
	default:
		return err
	}
	r.Skip()
	return &refusal{seq: r.Seq(), size: size, err: err}
}

// hugeCopy is the size, in bytes, from which on frames are copied and packed one
// after the other: each takes a processor for milliseconds.
const hugeCopy = 4 << 20

// lane lets one pass at a time; nil lets all.
type lane chan struct{}

func newLane() lane { return make(lane, 1) }

// enter waits for its turn with a frame of size bytes, if that is huge.
func (c lane) enter(size int) (leave func()) {
	if c == nil || size < hugeCopy {
		return func() {}
	}
	c <- struct{}{}
	return func() { <-c }
}

// largeRead is the next frame of a subscription in mode every when it is large: it is read in a goroutine,
// into memory of its own, and goes from there. Guarded by the link's mu, but for what
// the goroutine has meanwhile.
type largeRead struct {
	stock *stock
	huge  lane
	state largeState
	frame []byte // the goroutine's while state is largeBusy
	size  int
	err   error
	over  bool // the subscription has ended
}

type largeState int

const (
	largeNone largeState = iota
	largeBusy
	largeReady // size and err tell what came of it
)

func (r *largeRead) reading() bool { return r.state == largeBusy }

// readLarge begins to read the oldest frame that sub has not read. Needs l.mu.
func (l *link) readLarge(sub *subscription) {
	s := sub.every
	s.large.state = largeBusy
	l.n.packers.start(func() {
		n, err := s.readLarge()
		l.mu.Lock()
		s.large.state, s.large.size, s.large.err = largeReady, n, err
		if s.large.over {
			s.large.forget()
		}
		l.rouse(sub)
		l.mu.Unlock()
		l.awake()
	})
}

// readLarge looks before it takes memory: the size is somebody's word.
func (s *everySender) readLarge() (int, error) {
	leave := func() {}
	n, err := s.r.TryNextOldest(nil)
	for tries := 0; errors.Is(err, io.ErrShortBuffer) && n <= wire.MaxFrame && tries < 3; tries++ { // it may be gone meanwhile
		leave()
		leave = s.large.huge.enter(n)
		if err = s.large.grow(n); err == nil {
			n, err = s.r.TryNextOldest(s.large.frame)
		}
	}
	leave()
	return n, refused(s.r, n, err)
}

func (r *largeRead) grow(n int) error {
	if len(r.frame) >= n {
		return nil
	}
	r.give()
	if err := r.stock.takeStream(n); err != nil {
		return err
	}
	r.frame = make([]byte, n)
	return nil
}

// take returns what came of the reading.
func (r *largeRead) take() (int, error) {
	r.state = largeNone
	if r.err != nil {
		r.forget()
	}
	return r.size, r.err
}

// forget gives the memory back, unless it is being read into.
func (r *largeRead) forget() {
	if r.state != largeBusy {
		r.give()
	}
}

func (r *largeRead) give() {
	if r.frame != nil {
		r.stock.giveStream(len(r.frame))
	}
	r.frame = nil
}

func (r *largeRead) end() {
	r.over = true
	r.forget()
}
