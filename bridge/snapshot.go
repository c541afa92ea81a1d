package bridge

import (
	"errors"
	"io"
	"slices"
	"time"

	"achbridge/bridge/lock"
	"achbridge/localach"
	"achbridge/wire"
)

// snapshots copies the newest frames of one local channel out of its ring, each once for all
// links that send it. Safe for concurrent use. It never waits for the channel's lock, and a
// call takes at most 10 µs: frames of more than copiedAtOnce bytes are copied in a goroutine.
// The newest copy is kept until a newer one replaces it, for links that send it later.
type snapshots struct {
	ch    *localach.Channel
	with  *compressor
	now   func() time.Duration
	spawn func(func()) // calls a function in another goroutine
	huge  lane         // one after the other: copies that take long
	stock *stock       // the memory of the copies

	mu      lock.Mutex[lock.Snapshots]
	links   []*membership // links that send the channel
	r       *localach.Reader
	newest  *snapshot   // nil: none
	refused *refusal    // the newest frame that cannot be sent; nil: none
	unused  []*snapshot // for the next frames; at most mostUnused
	spare   [][]byte    // memory for packed forms; at most mostSpare
	large   largeCopy
}

// How much memory waits for its next use. It suffices while all links send the same frame. When
// links hold different frames, which is rare, the extra memory is not kept.
const (
	mostUnused = 1
	mostSpare  = len(codecs)
)

// membership is a link that may take snapshots of a channel.
type membership struct{ nudge func() }

// snapshot is the copy of one frame, valid until each link that took it has released it.
// Nobody writes to it meanwhile.
type snapshot struct {
	data     []byte
	seq      uint64
	captured time.Duration // 0: unknown

	of    *snapshots
	users int                      // guarded by of.mu: links, its packing, and of itself while it is the newest
	packs [len(codecs)]packedFrame // guarded by of.mu; in the order of codecs
}

// packedFrame is a snapshot compressed by one codec.
type packedFrame struct {
	form
	begun, ready bool
	waiting      []func()
	work         func() // makes it; one for the life of the memory
}

// newSnapshots prepares for a channel. with is used in goroutines of packed's
// callers; now gives capture times, and measures how long packing takes.
func newSnapshots(ch *localach.Channel, with *compressor, now func() time.Duration) *snapshots {
	s := &snapshots{ch: ch, with: with, now: now, r: ch.Reader(), spawn: func(f func()) { go f() }}
	s.within(newMemory(maxFrames))
	s.large.work = s.copyLarge
	return s
}

// within makes the copies take their memory from m.
func (s *snapshots) within(m *memory) { s.stock = m.stock(s.evict) }

// take returns frame seq or a newer one, for the caller to release. seen is the capture
// time of frame seq (0: unknown), which the first caller sets for all; a frame newer
// than seq is captured now. It returns the errors of localach.Reader.TryNext and of
// stock.take; errCopying while the frame is being copied (await tells when to ask
// again); and a *refusal when the frame cannot be sent at all.
func (s *snapshots) take(seq uint64, seen time.Duration) (*snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.newest != nil && s.newest.seq >= seq:
	case s.refused != nil && s.refused.seq >= seq:
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

// copy needs s.mu. It reads into memory of its own, so that the newest snapshot
// stays what it is when this fails.
func (s *snapshots) copy(seq uint64, seen time.Duration) error {
	next := s.memory()
	n, err := s.r.TryNext(next.data[:min(cap(next.data), copiedAtOnce)])
	for tries := 0; errors.Is(err, io.ErrShortBuffer) && n <= copiedAtOnce && tries < 3; tries++ { // a larger frame may be put meanwhile
		if err = s.grow(next, n); err == nil {
			n, err = s.r.TryNext(next.data[:min(cap(next.data), copiedAtOnce)])
		}
	}
	if errors.Is(err, io.ErrShortBuffer) && n > copiedAtOnce && n <= wire.MaxFrame {
		s.beginLarge(next, seq, seen)
		return errCopying
	}
	if err != nil {
		s.keep(next)
		return s.failure(s.r, n, err)
	}
	if s.r.Seq() > seq {
		seen = s.now() // the frame was put after the watcher looked
	}
	s.accept(next, s.r.Seq(), n, seen)
	return nil
}

// accept makes next the newest snapshot. Needs s.mu.
func (s *snapshots) accept(next *snapshot, seq uint64, size int, captured time.Duration) {
	next.data, next.seq, next.captured, next.users = next.data[:size], seq, captured, 1
	if s.newest != nil {
		s.drop(s.newest)
	}
	s.newest = next
}

// grow makes sure that next has memory for a frame of n bytes.
func (s *snapshots) grow(next *snapshot, n int) error {
	if cap(next.data) >= n {
		return nil
	}
	s.stock.give(cap(next.data))
	next.data = nil
	want := max(n, min(n+n/8, wire.MaxFrame)) // the next frames may be a little larger
	if err := s.stock.take(want); err != nil {
		return err
	}
	next.data = make([]byte, want)
	return nil
}

// memory needs s.mu.
func (s *snapshots) memory() *snapshot {
	n := len(s.unused)
	if n == 0 {
		return &snapshot{of: s}
	}
	next := s.unused[n-1]
	s.unused = s.unused[:n-1]
	return next
}

// join adds a link that sends the channel; the link must call leave at its end. nudge is called
// when the link must check whether it may keep the snapshot that it holds.
func (s *snapshots) join(nudge func()) *membership {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &membership{nudge}
	s.links = append(s.links, m)
	return m
}

// leave removes a link. When the last link leaves, all memory is given back. The next take then
// copies the newest frame again.
func (s *snapshots) leave(m *membership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = slices.DeleteFunc(s.links, func(o *membership) bool { return o == m })
	if len(s.links) == 0 {
		s.forget()
		s.refused = nil
	}
}

// used reports whether any link sends the channel.
func (s *snapshots) used() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.links) > 0
}

// forget gives back the memory that no link holds. Needs s.mu.
func (s *snapshots) forget() {
	s.large.dropped = s.large.busy
	s.r = s.ch.Reader() // a new reader reads the forgotten frame again
	if s.newest != nil {
		s.drop(s.newest)
	}
	s.newest = nil
	for _, old := range s.unused {
		s.stock.give(cap(old.data))
	}
	for _, buf := range s.spare {
		s.stock.give(cap(buf))
	}
	s.unused, s.spare = nil, nil
}

// evict gives back the memory that no link holds, and makes the links release the rest.
func (s *snapshots) evict() {
	s.mu.Lock()
	s.forget()
	links := slices.Clone(s.links)
	s.mu.Unlock()
	for _, m := range links {
		m.nudge()
	}
}

// release lets go of the snapshot and of its packed forms. Each user once.
func (s *snapshot) release() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.drop(s)
}

// drop needs s.mu.
func (s *snapshots) drop(old *snapshot) {
	if old.users--; old.users > 0 {
		return
	}
	if old.users < 0 {
		panic("snapshot released more often than taken")
	}
	for i := range old.packs {
		p := &old.packs[i]
		if p.data != nil {
			s.keepPacked(p.data)
		}
		*p = packedFrame{waiting: p.waiting[:0], work: p.work}
	}
	s.keep(old)
}

// keep keeps a snapshot's memory for its next use, unless enough is kept already. Needs s.mu.
func (s *snapshots) keep(old *snapshot) {
	if len(s.unused) >= mostUnused || s.stock.evicted() {
		s.stock.give(cap(old.data))
		old.data = nil
		return
	}
	s.unused = append(s.unused, old)
}

// keepPacked is keep for the memory of a packed form.
func (s *snapshots) keepPacked(buf []byte) {
	if len(s.spare) >= mostSpare || s.stock.evicted() {
		s.stock.give(cap(buf))
		return
	}
	s.spare = append(s.spare, buf)
}
