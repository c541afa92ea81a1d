package ring

import (
	"slices"
	"time"

	"github.com/klauspost/compress/s2"

	"achbridge/wire"
)

// Compressed is the result of compressing a frame.
type Compressed struct {
	Data []byte        // nil if compression was not worth it: the frame is sent uncompressed
	Took time.Duration // time to compress it, or to find that it is not worth it
}

// sharedCompression is a snapshot compressed by one codec, for all links.
type sharedCompression struct {
	Compressed
	isStarted, ready bool
	waiting          []func()
	work             func() // calls compress; allocated once and kept when the Snapshot is reused
}

// Compressed returns the frame compressed by codec, if it is ready. The result is valid until the snapshot is released. The
// first call starts the compression, once for all callers, in another goroutine. If ready is false, that goroutine calls done
// at the end, and the caller may then call Compressed again. done must be quick. It is also called if the caller has released
// the snapshot meanwhile.
func (s *Snapshot) Compressed(codec wire.Codec, done func()) (c Compressed, ready bool) {
	i := slices.Index(Codecs[:], codec)
	if i < 0 {
		return Compressed{}, true // uncompressed
	}
	s.of.mu.Lock()
	p := &s.compressed[i]
	if p.ready {
		defer s.of.mu.Unlock()
		return p.Compressed, true
	}
	p.waiting = append(p.waiting, done)
	first := !p.isStarted
	if first {
		p.isStarted = true
		s.users++ // until compress calls Release
		if p.work == nil {
			p.work = func() { s.compress(i) }
		}
	}
	s.of.mu.Unlock()
	if first {
		s.of.res.Spawn(p.work)
	}
	return Compressed{}, false
}

// IsCompressed reports whether Compressed would return ready for codec.
func (s *Snapshot) IsCompressed(codec wire.Codec) bool {
	i := slices.Index(Codecs[:], codec)
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return i < 0 || s.compressed[i].ready
}

// compress compresses the frame by Codecs[i] and calls the waiting done functions.
func (s *Snapshot) compress(i int) {
	of, c := s.of, &s.compressed[i]
	leave := of.res.Large.enter(len(s.Data))
	begin := of.res.Now()
	buf, worth := of.compress(Codecs[i], s.Data)
	took := of.res.Now() - begin
	leave()

	of.mu.Lock()
	c.ready, c.Took = true, took
	if worth {
		c.Data = buf
	} else {
		of.keepBytes(buf)
	}
	of.mu.Unlock()
	for _, done := range c.waiting { // no more callers are added once ready is set
		done()
	}
	clear(c.waiting) // drop the references to links
	s.Release()
}

// compress compresses a frame like Compressor.Compress, into memory of the channel's share. If the share has none left, worth
// is false.
func (s *Snapshots) compress(codec wire.Codec, frame []byte) (compressed []byte, worth bool) {
	buf := s.bytes()
	had := cap(buf)
	need := max(0, s2.MaxEncodedLen(len(frame))-had)
	if s.Share.Take(need) != nil {
		return buf, false
	}
	compressed, worth = s.res.Compressor.Compress(codec, buf, frame)
	s.Share.Give(had + need - cap(compressed))
	return compressed, worth
}

func (s *Snapshots) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.unusedBytes)
	if n == 0 {
		return nil
	}
	buf := s.unusedBytes[n-1]
	s.unusedBytes = s.unusedBytes[:n-1]
	return buf
}
