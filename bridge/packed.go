package bridge

import (
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"

	"achbridge/wire"
)

// jobs starts goroutines for a WaitGroup, without allocating memory for each, since there may
// be one for every frame. Safe for concurrent use.
type jobs struct {
	group *sync.WaitGroup
	idle  sync.Pool // of *job
}

type job struct {
	do  func()
	run func()
}

// start calls f in a goroutine.
func (s *jobs) start(f func()) {
	j, _ := s.idle.Get().(*job)
	if j == nil {
		j = &job{}
		j.run = func() {
			defer s.group.Done()
			j.do()
			j.do = nil
			s.idle.Put(j)
		}
	}
	j.do = f
	s.group.Add(1)
	go j.run()
}

// packed returns the frame compressed by codec, if it is ready. The result is valid until the
// snapshot is released. The first call begins the compression, once for all callers: spawn(f)
// must call f in another goroutine and not wait for it. A caller that got ready false may ask
// again after its done was called, by that goroutine. done must be quick. It is also called
// when the caller has released the snapshot meanwhile.
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

// ready reports whether the frame is compressed by codec already.
func (s *snapshot) ready(codec wire.Codec) bool {
	i := slices.Index(codecs[:], codec)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return i < 0 || s.packs[i].ready
}

// makePacked compresses the frame by codec number i and calls the waiting done functions.
func (s *snapshot) makePacked(i int) {
	of, p := s.of, &s.packs[i]
	leave := of.huge.enter(len(s.data))
	begin := of.now()
	buf, worth := of.compress(codecs[i], s.data)
	took := of.now() - begin
	leave()

	of.mu.Lock()
	p.ready, p.took = true, took
	if worth {
		p.data = buf
	} else {
		of.keepPacked(buf)
	}
	of.mu.Unlock()
	for _, done := range p.waiting { // no caller is added any more
		done()
	}
	clear(p.waiting) // drop the references to links
	s.release()
}

// compress compresses a frame as compressor.compress does, into memory of the channel's stock.
// When that has none left, the frame stays uncompressed.
func (s *snapshots) compress(codec wire.Codec, frame []byte) (packed []byte, worth bool) {
	buf := s.packMemory()
	had := cap(buf)
	need := max(0, s2.MaxEncodedLen(len(frame))-had)
	if s.stock.take(need) != nil {
		return buf, false
	}
	packed, worth = s.with.compress(codec, buf, frame)
	s.stock.give(had + need - cap(packed))
	return packed, worth
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
