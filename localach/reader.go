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

// Next copies the newest frame, if it has not been returned before, into buf and returns its size in bytes. Without one it
// looks for at most wait (0: not at all) and then gives os.ErrDeadlineExceeded. A buf that is too small gives
// io.ErrShortBuffer with the size needed, and the frame stays unread. It never waits for a lock longer than 100 ms
// (ErrBusy). It allocates nothing. The paper calls this access to the newest frame the reason for Ach.
func (r *Reader) Next(buf []byte, wait time.Duration) (int, error) {
	return r.get(buf, wait, optLast)
}

// TryNext is Next without waiting, for a caller that other work waits for: when the lock is needed and not free within a short
// spin, a few microseconds, it gives ErrBusy.
func (r *Reader) TryNext(buf []byte) (int, error) {
	return r.get(buf, 0, optLast|optTry)
}

// NextOldest is Next for the oldest frame not returned before: libach's get without options. A reader that falls behind the
// ring skips what is no longer there; Missed counts it.
func (r *Reader) NextOldest(buf []byte, wait time.Duration) (int, error) {
	return r.get(buf, wait, 0)
}

// TryNextOldest is NextOldest without waiting, as TryNext is Next.
func (r *Reader) TryNextOldest(buf []byte) (int, error) {
	return r.get(buf, 0, optTry)
}

// Last copies the newest frame into buf, seen or not. os.ErrDeadlineExceeded when the channel has none yet.
func (r *Reader) Last(buf []byte) (int, error) {
	return r.get(buf, 0, optLast|optCopy)
}

// Flush counts all frames present as seen.
func (r *Reader) Flush() error {
	if err := r.c.enter(); err != nil {
		return err
	}
	defer r.c.release()
	return r.c.fail(r.c.m.flush(&r.at))
}

// Seq returns the number of the frame returned last, 0 when none was.
func (r *Reader) Seq() uint64 { return r.at.seq() }

// Missed returns how many frames the last call passed over: put since the frame before, and not returned.
func (r *Reader) Missed() uint64 { return r.at.missed() }

func (r *Reader) get(buf []byte, wait time.Duration, options int32) (int, error) {
	if err := r.c.enter(); err != nil {
		return 0, err
	}
	defer r.c.release()
	s := r.c.m.get(&r.at, buf, options)
	if s == statusStale && wait > 0 {
		s = r.await(buf, wait, options)
	}
	switch s.code() {
	case statusOK, statusMissed:
		r.c.saw(r.at.seq())
		return r.at.size(), nil
	case statusOverflow:
		return r.at.size(), io.ErrShortBuffer
	}
	return 0, r.c.fail(s)
}

// How last_seq is watched while a Next waits: often at first; a channel long silent is looked at less often.
const (
	awaitSlice  = 10 * time.Millisecond // the longest stay in C: Close is noticed this late
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
			s = r.c.m.get(&r.at, buf, options)
		}
		if s != statusStale {
			return s
		}
	}
}
