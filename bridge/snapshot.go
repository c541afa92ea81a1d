package bridge

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"achbridge/localach"
	"achbridge/wire"
)

// snapshots copies the newest frames of one local channel out of its ring, each
// once for all links that send it. Safe for concurrent use. It never waits for the
// channel's lock; a call waits while another copies, 0.1 ms for 1 MB. The newest
// copy is kept until a newer one takes its place, for links that come to it later.
type snapshots struct {
	ch   *localach.Channel
	with *compressor
	now  func() time.Duration

	mu     sync.Mutex
	links  int // that may take
	r      *localach.Reader
	newest *snapshot   // nil: none was taken
	unused []*snapshot // for the next frames; at most mostUnused
	spare  [][]byte    // memory for packed forms; at most mostSpare
}

// What waits for its next use. It suffices as long as links keep pace with one another.
// That they hold frames of several ages is rare, and its memory is not kept.
const (
	mostUnused = 1
	mostSpare  = len(codecs)
)

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
	return &snapshots{ch: ch, with: with, now: now, r: ch.Reader()}
}

// take returns frame noted or a newer one, for the caller to release. seen is when
// frame noted was seen to be there (0: unknown): its capture time. Who takes a frame
// first says so for all; one that is newer than noted is captured now. When
// the frame cannot be read it gives the errors of localach.Reader.TryNext.
func (s *snapshots) take(noted uint64, seen time.Duration) (*snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil || s.newest.seq < noted {
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
	n, err := s.r.TryNext(next.data[:cap(next.data)])
	for tries := 0; errors.Is(err, io.ErrShortBuffer) && tries < 3; tries++ { // they may grow meanwhile
		next.data = make([]byte, n+n/8)
		n, err = s.r.TryNext(next.data)
	}
	if err != nil {
		s.unused = keep(s.unused, next, mostUnused)
		return err
	}
	next.data, next.seq, next.captured = next.data[:n], s.r.Seq(), seen
	if next.seq > noted {
		next.captured = s.now() // put after the watcher looked
	}
	next.users = 1
	if s.newest != nil {
		s.drop(s.newest)
	}
	s.newest = next
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

// join counts a link that sends the channel, which has to leave in the end.
func (s *snapshots) join() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links++
}

// leave gives back all memory that no link holds when the last one leaves. The
// next take copies the newest frame again.
func (s *snapshots) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links--; s.links > 0 {
		return
	}
	if s.newest != nil {
		s.drop(s.newest)
	}
	s.newest, s.unused, s.spare = nil, nil, nil
	s.r = s.ch.Reader()
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
			s.spare = keep(s.spare, p.data, mostSpare)
		}
		*p = packedFrame{waiting: p.waiting[:0], work: p.work}
	}
	s.unused = keep(s.unused, old, mostUnused)
}

// keep adds to what waits for its next use, unless that is enough.
func keep[T any](list []T, more T, most int) []T {
	if len(list) >= most {
		return list
	}
	return append(list, more)
}

// packed returns the frame as codec makes it, when it is ready; it is valid until
// the snapshot is released. The first who asks has it made, once for all, in a
// goroutine: spawn(f) has to call f, in whatever goroutine, but not to wait for it.
// Who got ready false may ask again when its done is called, on that goroutine.
// done has to be quick, as a wake-up is, and is called also when its user has
// released the snapshot meanwhile: that needs no other care.
func (s *snapshot) packed(codec wire.Codec, spawn func(func()), done func()) (f form, ready bool) {
	i := slices.Index(codecs[:], codec)
	if i < 0 {
		return form{}, true // as it is
	}
	s.of.mu.Lock()
	p := &s.packs[i]
	if p.ready {
		defer s.of.mu.Unlock()
		return p.form, true
	}
	p.waiting = append(p.waiting, done)
	first := !p.begun
	if first {
		p.begun = true
		s.users++ // until it is made
		if p.work == nil {
			p.work = func() { s.makePacked(i) }
		}
	}
	s.of.mu.Unlock()
	if first {
		spawn(p.work)
	}
	return form{}, false
}

// ready reports whether packed has the frame as codec makes it.
func (s *snapshot) ready(codec wire.Codec) bool {
	i := slices.Index(codecs[:], codec)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return i < 0 || s.packs[i].ready
}

// makePacked makes the form of codec number i and tells who waits for it.
func (s *snapshot) makePacked(i int) {
	of, p := s.of, &s.packs[i]
	buf := of.packMemory()
	begin := of.now()
	buf, worth := of.with.compress(codecs[i], buf, s.data)
	took := of.now() - begin

	of.mu.Lock()
	p.ready, p.took = true, took
	if worth {
		p.data = buf
	} else {
		of.spare = keep(of.spare, buf, mostSpare)
	}
	of.mu.Unlock()
	for _, done := range p.waiting { // nobody joins any more
		done()
	}
	clear(p.waiting) // no link is held by what it asked for
	s.release()
}

func (s *snapshots) packMemory() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.spare)
	if n == 0 {
		return nil
	}
	buf := s.spare[n-1]
	s.spare = s.spare[:n-1]
	return buf
}
