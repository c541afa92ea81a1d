package foxglove

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"achbridge/localach"
	"achbridge/wire"
)

// source reads one channel for the viewers that subscribe to it in one encoding. It runs while there are any.
type source struct {
	name    string
	convert func(dst, frame []byte) ([]byte, error)
	cfg     *Config
	watcher *localach.Watcher
	noticed noticedFrame
	subscribers

	mu      sync.Mutex                                         // guards the following fields
	reader  *localach.Reader                                   // nil while the channel is not open
	newest  func() (seq uint64, age time.Duration, known bool) // nil unless the channel is a mirror of this host's node
	frame   []byte                                             // buffer
	made    message                                            // the message of the newest frame that was read
	isMade  bool
	epoch   uint64 // added to the numbers of frames, so that those of a replaced channel are higher
	failure string // why the newest frame gave no message, "" if it did
}

// noticedFrame is the newest frame that the watcher has reported.
type noticedFrame struct {
	mu  sync.Mutex // guards the following fields; held only to read or write them, since the watcher must not wait
	seq uint64
	at  time.Time // zero for a frame that is older than the source
}

// see notes the time at which frame seq was noticed.
func (s *noticedFrame) see(seq uint64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq != s.seq {
		s.seq, s.at = seq, at
	}
}

// timeOf returns when frame seq was noticed, zero if that is unknown.
func (s *noticedFrame) timeOf(seq uint64) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq != s.seq {
		return time.Time{}
	}
	return s.at
}

// checkEvery is the time between two checks whether a channel still exists, and between attempts to open it.
const checkEvery = 500 * time.Millisecond

// findEvery is how many checks pass between two searches for the mirror, which the node may have replaced.
const findEvery = 10

// run reads the channel until ctx ends.
func (s *source) run(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if ch, err := s.cfg.Dir.TryOpenToRead(s.name); err == nil {
			s.follow(ctx, ch, tick.C)
			ch.Close()
			continue
		} else {
			s.fail(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// follow offers the frames of an open channel to the viewers, until the channel is gone or ctx ends.
func (s *source) follow(ctx context.Context, ch *localach.Channel, tick <-chan time.Time) {
	wake := make(chan struct{}, 1)
	notice := s.watcher.Watch(ch, func(seq uint64) {
		s.noticed.see(seq, time.Now())
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	defer notice.Close()
	s.open(ch)
	defer s.close()
	s.noticed.see(ch.LastSeq(), time.Time{})
	for ticks := 1; ; ticks++ {
		// Frames are offered at every tick too, since a read fails while the channel's lock is taken.
		select {
		case <-time.After(s.offer()):
		case <-ctx.Done():
			return
		}
		select {
		case <-wake:
			ticks--
			continue
		case <-ctx.Done():
			return
		case <-tick:
		}
		if err := ch.Check(); err != nil {
			s.fail(err)
			return
		}
		if ticks%findEvery == 0 {
			s.find(ch)
		}
	}
}

func (s *source) open(ch *localach.Channel) {
	s.find(ch)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isMade {
		s.epoch = s.made.number
	}
	s.reader, s.isMade, s.failure = ch.Reader(), false, ""
}

// find looks for the mirror whose file the channel is, if there is one.
func (s *source) find(ch *localach.Channel) {
	var newest func() (uint64, time.Duration, bool)
	if ch.Tag() != (localach.Tag{}) {
		newest = s.cfg.Node.Newest(s.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = newest
}

func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reader = nil
}

func (s *source) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err.Error()
}

// next returns the message of the newest frame. It reads and converts each frame once, for all viewers. It does not wait for
// the channel's lock.
func (s *source) next(last uint64) (message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != nil {
		s.read()
	}
	return s.made, s.isMade && s.made.number != last
}

// read makes the message of the newest frame, unless that is made already. s.mu must be held.
func (s *source) read() {
	n, err := s.reader.TryNext(s.frame)
	if errors.Is(err, io.ErrShortBuffer) {
		if n > wire.MaxFrame {
			s.reader.Skip()
			s.failure = fmt.Sprintf("a frame of %d bytes; no frame above %d bytes is shown", n, wire.MaxFrame)
			return
		}
		s.frame = make([]byte, n)
		n, err = s.reader.TryNext(s.frame)
	}
	if err != nil {
		return // no new frame; or the lock is taken, and a later frame is read
	}
	seq := s.reader.Seq()
	data, err := s.convert(nil, s.frame[:n])
	if err != nil {
		s.failure = err.Error()
		return
	}
	s.made, s.isMade, s.failure = message{number: s.epoch + seq, at: s.capturedAt(seq), data: data}, true, ""
}

// capturedAt returns when frame seq was captured: the wall clock less its age. For a frame that was in the channel before the
// first subscription it is now. s.mu must be held.
func (s *source) capturedAt(seq uint64) time.Time {
	now := time.Now()
	if s.newest != nil {
		if newest, age, known := s.newest(); known && newest == seq {
			return now.Add(-age)
		}
	}
	if at := s.noticed.timeOf(seq); !at.IsZero() {
		return at
	}
	return now
}

// problem returns why the newest frame gives no message, "" if it does.
func (s *source) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}
