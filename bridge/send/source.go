package send

import (
	"errors"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/ring"
	"achbridge/localach"
)

// source is a channel of this host as one subscription reads it. The link's mu guards it, except for arrivals.
type source struct {
	ch       *localach.Channel
	reader   *localach.Reader
	clock    ring.Clock
	arrivals *ring.Arrivals
	copies   *ring.Snapshots // of the channel's large frames
	user     *ring.User      // of copies
	request  ring.SnapshotRequest
	buf      []byte // the current frame, if it is small
	spare    []byte // what the next small frame is read into

	measured uint64 // the frame that sizeOf was asked of last
	size     int    // of that frame, in bytes

	trouble    error         // why the last try to read the channel failed, or its frame is not sent
	isReported bool          // the node was told of trouble
	retryAt    time.Duration // no try before
	busyFor    time.Duration // from try to try, while the channel's lock is taken

	suspended func() time.Duration // for how long the host has been suspended in all; nil: never
	asleep    time.Duration        // the same when it was looked at
	undated   uint64               // of a command channel: frames up to this one may be of any age
}

func (s *source) close() {
	s.arrivals.Stop()
	s.copies.Leave(s.user)
}

// sizeOf returns the size in bytes of seq, the newest frame of the ring.
func (s *source) sizeOf(seq uint64) int {
	if s.measured != seq {
		s.measured = seq
		s.size, _ = s.ch.Reader().Last(nil) // the error is that it does not fit
	}
	return s.size
}

// How soon a channel is tried again, beside ring.AfterBusy and ring.AfterNoMemory: one that stays busy, and one that could
// not be read. It goes on by itself, or the node finds what is wrong.
const (
	trySeldom = 10 * time.Millisecond
	tryAgain  = 100 * time.Millisecond
)

// failed records err, the result of a try to read the channel, and when to try again. It reports whether the try failed.
func (s *source) failed(err error, now time.Duration) bool {
	if s.trouble = err; err == nil {
		s.busyFor = 0
		return false
	}
	s.retryAt = now + tryAgain
	if errors.Is(err, ring.ErrNoMemory) {
		s.retryAt = now + ring.AfterNoMemory
	}
	if ring.IsBusy(err) {
		s.busyFor = clock.Longer(s.busyFor, ring.AfterBusy, trySeldom)
		s.retryAt = now + s.busyFor
	}
	return true
}

// unsendable returns trouble once, if it will not go away by itself.
func (s *source) unsendable() error {
	if s.isReported || !errors.Is(s.trouble, localach.ErrHole) && !errors.Is(s.trouble, ring.ErrTooLarge) && !errors.Is(s.trouble, ring.ErrNoMemory) {
		return nil
	}
	s.isReported = true
	return s.trouble
}

// slept reports whether the host was suspended since the last call. Then no capture time shows how old the frames in the ring
// are.
func (s *source) slept() bool {
	if s.suspended == nil {
		return false
	}
	total := s.suspended()
	if !clock.Slept(s.asleep, total) {
		return false
	}
	s.asleep, s.undated = total, s.ch.LastSeq()
	return true
}
