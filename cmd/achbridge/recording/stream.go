package recording

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// stream is one channel that is recorded.
type stream struct {
	topic      *Topic
	ch         *localach.Channel
	r          *localach.Reader
	notice     *localach.Notice
	due        atomic.Bool // there may be a new frame
	began      bool        // a frame was read
	buf        []byte
	meta       *metadataChannel // nil if capture times are unknown
	missed     uint64
	asking     bool // a request to the origin for the type is under way
	awaitsType bool // its frames stay in the ring until the type is known
}

// openStream opens a channel; its stream begins with the oldest frame.
func openStream(dir localach.Dir, name, host string) (*stream, error) {
	ch, err := dir.TryOpenToRead(name)
	if err != nil {
		return nil, err
	}
	st, err := ch.Stat()
	if err = errors.Join(err, ch.Check()); err != nil {
		ch.Close()
		return nil, err
	}
	s := &stream{ch: ch, r: ch.Reader(), buf: make([]byte, st.Geometry.FrameSize)}
	s.topic = &Topic{
		Channel: name, Host: host, FrameCount: st.Geometry.FrameCount, FrameSize: st.Geometry.FrameSize,
		Mode: fmt.Sprintf("%04o", st.Mode.Perm()),
	}
	if s.meta = openMetadataChannel(dir, name); s.meta != nil {
		s.topic.Times = "origin"
	}
	return s, nil
}

// skipToNewest lets a stream begin with the newest frame, for a channel that is older than the
// recording.
func (s *stream) skipToNewest() {
	if last := s.ch.LastSeq(); last > 0 {
		s.r = s.ch.ReaderAfter(last - 1)
	}
}

// next reads the oldest frame not read yet. It never waits: it returns os.ErrDeadlineExceeded
// when there is none, and localach.ErrBusy when the lock is taken. missed counts the frames
// that were overwritten before. The frame's bytes are valid until the next call.
func (s *stream) next() (frame []byte, missed uint64, err error) {
	for {
		n, err := s.read()
		if errors.Is(err, io.ErrShortBuffer) {
			s.buf = make([]byte, n)
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if s.began {
			missed = s.r.Missed()
		}
		s.began = true
		s.missed += missed
		return s.buf[:n], missed, nil
	}
}

// read copies the frame. If it is the only new one, read copies it without the channel's lock
// where that is possible, so that no other program waits for the copy.
func (s *stream) read() (int, error) {
	seen := s.r.Seq()
	if !s.began || s.ch.LastSeq() != seen+1 {
		return s.r.TryNextOldest(s.buf)
	}
	n, err := s.r.TryNext(s.buf)
	if err == nil && s.r.Seq() != seen+1 {
		s.r = s.ch.ReaderAfter(seen) // another frame was put meanwhile: read both in their order
		return s.r.TryNextOldest(s.buf)
	}
	return n, err
}

// changeTopic changes the topic of the frames that are read from now on. Frames in the queue keep theirs.
func (s *stream) changeTopic(change func(t *Topic)) {
	topic := *s.topic
	change(&topic)
	s.topic = &topic
}

func (s *stream) close() {
	if s.notice != nil {
		s.notice.Close()
	}
	s.meta.close()
	s.ch.Close()
}

// metadataChannel reads the capture times of frames from the metadata channel NAME.meta of a mirror.
type metadataChannel struct {
	ch       *localach.Channel
	r        *localach.Reader
	buf      []byte
	captures []capture // in order of seq
}

// capture is the capture time of frame seq in the metadata channel, by CLOCK_MONOTONIC; 0 means unknown.
type capture struct {
	seq      uint64
	captured time.Duration
}

func openMetadataChannel(dir localach.Dir, name string) *metadataChannel {
	ch, err := dir.TryOpen(name + rule.MetaSuffix)
	if err != nil {
		return nil
	}
	if _, ok := mirror.MetaOf(ch.Name(), ch.Tag()); !ok {
		ch.Close()
		return nil
	}
	return &metadataChannel{ch: ch, r: ch.Reader(), buf: make([]byte, ch.Geometry().FrameSize)}
}

// captured returns the capture time of frame seq of the mirror. pending means that the daemon
// has not yet written it.
func (c *metadataChannel) captured(seq uint64) (at time.Duration, pending bool) {
	if c == nil {
		return 0, false
	}
	for {
		n, err := c.r.TryNextOldest(c.buf)
		if err != nil {
			break
		}
		if m, err := status.ParseMeta(c.buf[:n]); err == nil {
			if k := len(c.captures); k > 0 && c.captures[k-1].seq == m.MirrorSeq {
				c.captures[k-1].captured = m.Captured // a later, more exact time for the same frame
			} else {
				c.captures = append(c.captures, capture{m.MirrorSeq, m.Captured})
			}
		}
	}
	drop := 0
	for drop < len(c.captures) && c.captures[drop].seq < seq {
		drop++
	}
	c.captures = append(c.captures[:0], c.captures[drop:]...)
	if len(c.captures) == 0 {
		return 0, true
	}
	if c.captures[0].seq == seq {
		at = c.captures[0].captured
	}
	return at, false
}

func (c *metadataChannel) close() {
	if c != nil {
		c.ch.Close()
	}
}
