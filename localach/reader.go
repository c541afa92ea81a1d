package localach

import (
	"io"
	"time"
)

// Reader reads frames from a position in a channel. It is for one goroutine at a time.
type Reader struct {
	c  *Channel
	at position
}

// Next copies the newest frame into buf and returns its size in bytes. If that frame was returned before, Next waits for a new
// one for at most wait, and then returns os.ErrDeadlineExceeded. If buf is too small it returns io.ErrShortBuffer and the size,
// and the frame stays unread. For a frame of 16 KiB or more in a hole of the file it returns ErrHole and the size, since reading
// the frame would allocate shared memory. Next waits for the lock for at most 100 ms (ErrBusy). It does not allocate.
func (r *Reader) Next(buf []byte, wait time.Duration) (int, error) {
	return r.get(buf, wait, optLast)
}

// TryNext does what Next does, but does not wait. If it needs the lock and the lock is not free within a few microseconds, it
// returns ErrBusy. With an empty buf it returns io.ErrShortBuffer and the size, or the error why the frame cannot be read, so
// that the caller knows them before it allocates memory for the frame.
func (r *Reader) TryNext(buf []byte) (int, error) {
	return r.get(buf, 0, optLast|optTry)
}

// NextOldest does what Next does for the oldest frame that was not returned before, like libach's get without options. A reader
// that is too slow skips frames that are no longer in the ring; Missed counts them.
func (r *Reader) NextOldest(buf []byte, wait time.Duration) (int, error) {
	return r.get(buf, wait, 0)
}

// TryNextOldest does what NextOldest does, but does not wait, like TryNext.
func (r *Reader) TryNextOldest(buf []byte) (int, error) {
	return r.get(buf, 0, optTry)
}

// Last copies the newest frame into buf, even if it was returned before. It returns os.ErrDeadlineExceeded if the channel has no
// frame.
func (r *Reader) Last(buf []byte) (int, error) {
	return r.get(buf, 0, optLast|optCopy)
}

// Flush marks all current frames as read.
func (r *Reader) Flush() error {
	if err := r.c.enter(); err != nil {
		return err
	}
	defer r.c.release()
	return r.c.fail(r.c.m.flush(&r.at))
}

// Skip marks the frame that the last call could not copy (io.ErrShortBuffer, ErrHole) as read. Seq then returns its number. Skip
// needs no lock.
func (r *Reader) Skip() { r.at.skip() }

// Seq returns the number of the last frame returned, or 0 before the first.
func (r *Reader) Seq() uint64 { return r.at.seq() }

// Missed returns how many frames the last call skipped, which were put after the previous frame and never returned.
func (r *Reader) Missed() uint64 { return r.at.missed() }

func (r *Reader) get(buf []byte, wait time.Duration, options int32) (int, error) {
	if err := r.c.enter(); err != nil {
		return 0, err
	}
	defer r.c.release()
	s := r.c.get(&r.at, buf, options)
	if s == statusStale && wait > 0 {
		s = r.await(buf, wait, options)
	}
	switch s.code() {
	case statusOK, statusMissed:
		r.c.noteSeq(r.at.seq())
		return r.at.size(), nil
	case statusOverflow:
		return r.at.size(), io.ErrShortBuffer
	case statusHole:
		return r.at.size(), r.c.fail(s)
	}
	return 0, r.c.fail(s)
}

// Polling of last_seq while Next waits: often at first, less often after a long silence.
const (
	awaitSlice  = 10 * time.Millisecond // longest call of C, after which Next checks for Close
	awaitPeriod = 100 * time.Microsecond
	awaitIdle   = 500 * time.Microsecond
)

func (r *Reader) await(buf []byte, wait time.Duration, options int32) status {
	start := time.Now()
	period := awaitPeriod
	for {
		waited := time.Since(start)
		if waited >= wait || r.c.closed.Load() {
			return statusStale
		}
		if waited > 10*awaitSlice {
			period = awaitIdle
		}
		s := r.c.m.waitNewer(r.at.seq(), min(wait-waited, awaitSlice), period)
		if s == statusOK {
			s = r.c.get(&r.at, buf, options)
		}
		if s != statusStale {
			return s
		}
	}
}
