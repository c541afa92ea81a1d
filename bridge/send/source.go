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
	ch         *localach.Channel
	reader     *localach.Reader
	clock      ring.Clock
	arrivals   *ring.Arrivals
	copies     *ring.Snapshots // of the channel's large frames
	user       *ring.User      // the subscription's use of copies
	request    ring.SnapshotRequest
	buf        []byte // the current frame, if it is small
	nextBuffer []byte // what the next small frame is read into

	measured uint64 // number of the frame whose size is known
	size     int    // size of the frame measured, in bytes

	problem    error         // why the last try to read the channel failed, or its frame is not sent
	isReported bool          // whether the node knows of trouble
	retryAt    time.Duration // no try before
	busyFor    time.Duration // from try to try, while the channel's lock is taken

	suspended func() time.Duration // returns the total time of suspension of this host; nil if it is never suspended
	asleep    time.Duration        // result of suspended at the last call of slept
	undated   uint64               // number of the newest frame of unknown age, if the channel carries commands
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

// Times between two tries to read a channel, in addition to ring.AfterBusy and ring.AfterNoMemory: trySeldom for a channel whose
// lock stays taken, tryAgain for one that could not be read. The node finds the cause of other errors.
const (
	trySeldom = 10 * time.Millisecond
	tryAgain  = 100 * time.Millisecond
)

// failed records err, the result of a try to read the channel, and when to try again. It reports whether the try failed.
func (s *source) failed(err error, now time.Duration) bool {
	if s.problem = err; err == nil {
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

// unsendable returns trouble if it will not go away by itself. Later calls return nil.
func (s *source) unsendable() error {
	if s.isReported || !errors.Is(s.problem, localach.ErrHole) && !errors.Is(s.problem, ring.ErrTooLarge) && !errors.Is(s.problem, ring.ErrNoMemory) {
		return nil
	}
	s.isReported = true
	return s.problem
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
