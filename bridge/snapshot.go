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

// snapshots copies the newest frames of one local channel out of its ring, each
// once for all links that send it. Safe for concurrent use. It never waits for the
// channel's lock, and takes 10 µs at most: a frame of more than copiedAtOnce bytes
// is copied in a goroutine. The newest copy is kept until a newer one takes its
// place, for links that come to it later.
type snapshots struct {
	ch    *localach.Channel
	with  *compressor
	now   func() time.Duration
	spawn func(func()) // calls a function in another goroutine
	huge  lane         // for what would take a processor for long
	stock *stock       // what the memory of the copies comes from

	mu      lock.Mutex[lock.Snapshots]
	links   []*membership // that may take
	r       *localach.Reader
	newest  *snapshot   // nil: none was taken
	refused *refusal    // the newest frame that cannot be sent; nil: none
	unused  []*snapshot // for the next frames; at most mostUnused
	spare   [][]byte    // memory for packed forms; at most mostSpare
	large   largeCopy
}

// What waits for its next use. It suffices as long as links keep pace with one another.
// That they hold frames of several ages is rare, and its memory is not kept.
const (
	mostUnused = 1
	mostSpare  = len(codecs)
)

// membership is a link that may take snapshots of a channel.
type membership struct{ nudge func() }

// snapshot is one frame, for the links that took it until each has released it.
// Nobody writes to it meanwhile.
type snapshot struct {
	data     []byte
	seq      uint64
	captured time.Duration // 0: unknown

	of    *snapshots
	users int                      // guarded by of.mu: links, its packing, and of itself while it is the newest
	packs [len(codecs)]packedFrame // guarded by of.mu; in the order of codecs
}

// packedFrame is a snapshot as one codec makes it.
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

// within has the memory of the copies come from m.
func (s *snapshots) within(m *memory) { s.stock = m.stock(s.ch.Name(), s.ch.Owner(), s.evict) }

// take returns frame noted or a newer one, for the caller to release. seen is when
// frame noted was seen to be there (0: unknown): its capture time. Who takes a frame
// first says so for all; one that is newer than noted is captured now. When
// the frame cannot be read it gives the errors of localach.Reader.TryNext, or those
// of stock.take; errCopying when it is being copied: await tells when to ask again;
// and a *refusal when it cannot be sent at all.
func (s *snapshots) take(noted uint64, seen time.Duration) (*snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.newest != nil && s.newest.seq >= noted:
	case s.refused != nil && s.refused.seq >= noted:
		return nil, s.refused
	case s.large.busy:
		return nil, errCopying
	default:
		if err := s.copy(noted, seen); err != nil {
			return nil, err
		}
	}
	s.newest.users++
	return s.newest, nil
}

// copy needs s.mu. It reads into memory of its own, so that the newest snapshot
// stays what it is when this fails.
func (s *snapshots) copy(noted uint64, seen time.Duration) error {
	next := s.memory()
	n, err := s.r.TryNext(next.data[:min(cap(next.data), copiedAtOnce)])
	for tries := 0; errors.Is(err, io.ErrShortBuffer) && n <= copiedAtOnce && tries < 3; tries++ { // they may grow meanwhile
		if err = s.grow(next, n); err == nil {
			n, err = s.r.TryNext(next.data[:min(cap(next.data), copiedAtOnce)])
		}
	}
	if errors.Is(err, io.ErrShortBuffer) && n > copiedAtOnce && n <= wire.MaxFrame {
		s.beginLarge(next, noted, seen)
		return errCopying
	}
	if err != nil {
		s.keep(next)
		return s.failure(s.r, n, err)
	}
	if s.r.Seq() > noted {
		seen = s.now() // put after the watcher looked
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

// grow gives next memory for a frame of n bytes.
func (s *snapshots) grow(next *snapshot, n int) error {
	if cap(next.data) >= n {
		return nil
	}
	s.stock.give(cap(next.data))
	next.data = nil
	want := max(n, min(n+n/8, wire.MaxFrame)) // the next ones may be a little larger
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

// join counts a link that sends the channel, which has to leave in the end. nudge is
// called when it has to look whether it may keep the frame that it has.
func (s *snapshots) join(nudge func()) *membership {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &membership{nudge}
	s.links = append(s.links, m)
	return m
}

// leave gives back all memory that no link holds when the last one leaves. The
// next take copies the newest frame again.
func (s *snapshots) leave(m *membership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = slices.DeleteFunc(s.links, func(o *membership) bool { return o == m })
	if len(s.links) == 0 {
		s.forget()
		s.refused = nil
	}
}

// used reports whether a link may take.
func (s *snapshots) used() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.links) > 0
}

// forget gives back the memory that no link holds. Needs s.mu.
func (s *snapshots) forget() {
	s.large.dropped = s.large.busy
	s.r = s.ch.Reader() // which has not seen what is forgotten
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

// evict gives back what no link holds, and has the links let go of the rest.
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

// keep has a snapshot's memory wait for its next use, unless enough does. Needs s.mu.
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
