package localach

import (
	"io"
	"time"
)

// Reader is one position in a channel. One goroutine at a time.
type Reader struct {
	c  *Channel
	at position
}

// Next copies the newest frame into buf, if Next has not returned it before, and returns its size in bytes. Without such a
// frame it waits for one for at most wait (0: not at all) and then gives os.ErrDeadlineExceeded. When buf is too small it
// gives io.ErrShortBuffer and the size needed, and the frame stays unread. A frame of 16 KiB or more that lies in a hole of
// the file gives ErrHole and its size, because reading it would allocate shared memory. Next waits for the lock for at most
// 100 ms (ErrBusy) and allocates nothing.
func (r *Reader) Next(buf []byte, wait time.Duration) (int, error) {
	return r.get(buf, wait, optLast)
}

// TryNext is Next without waiting. If it needs the lock, and the lock is not free within a few microseconds, it gives
// ErrBusy. With an empty buf it gives io.ErrShortBuffer and the size, or the error because of which the frame cannot be read,
// so that the caller knows before it takes memory for the frame.
func (r *Reader) TryNext(buf []byte) (int, error) {
	return r.get(buf, 0, optLast|optTry)
}

// NextOldest is Next for the oldest frame that was not returned before: libach's get without options. A reader that falls
// behind the ring skips the frames that are gone; Missed counts them.
func (r *Reader) NextOldest(buf []byte, wait time.Duration) (int, error) {
	return r.get(buf, wait, 0)
}

// TryNextOldest is NextOldest without waiting, as TryNext is Next.
func (r *Reader) TryNextOldest(buf []byte) (int, error) {
	return r.get(buf, 0, optTry)
}

// Last copies the newest frame into buf, seen or not. It gives os.ErrDeadlineExceeded when the channel has no frame yet. Tests
// of other packages use it.
func (r *Reader) Last(buf []byte) (int, error) {
	return r.get(buf, 0, optLast|optCopy)
}

// Flush marks all frames present as seen.
func (r *Reader) Flush() error {
	if err := r.c.enter(); err != nil {
		return err
	}
	defer r.c.release()
	return r.c.fail(r.c.m.flush(&r.at))
}

// Skip marks the frame that the last call could not copy (io.ErrShortBuffer, ErrHole) as seen; Seq is then its number. It
// needs no lock.
func (r *Reader) Skip() { r.at.skip() }

// Seq returns the number of the last frame returned, 0 before the first.
func (r *Reader) Seq() uint64 { return r.at.seq() }

// Missed returns how many frames the last call skipped: they were put after the previous frame and never returned.
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

// How often last_seq is polled while Next waits: often at first, less often after a long silence.
const (
	awaitSlice  = 10 * time.Millisecond // longest time in C, after which Next notices a Close
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
