package localach

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Writer puts frames into a channel. One goroutine at a time, except for Stuck.
type Writer struct {
	c       *Channel
	result  putResult
	wake    chan struct{} // a broadcast is due; nil until somebody first waited
	done    chan struct{} // the broadcaster has ended
	began   time.Time     // of the broadcaster
	hanging atomic.Int64  // when the present broadcast was called, in ns since began; 0: none is
	closed  bool
}

// Put appends a copy of frame and returns its sequence number. It waits for the lock 100 ms at most (ErrBusy) and never for
// a reader: those who wait on the condition variable are woken from another goroutine, because a broadcast can hang for ever
// once a process was killed while it waited (Stuck). A frame may be as long as the whole data area (else ErrTooLarge), not
// empty (ErrEmpty). Allocates nothing, but for the first waiter's sake.
func (w *Writer) Put(frame []byte) (seq uint64, err error) {
	return w.put(frame, lockLimit)
}

// TryPut is Put for a caller that other work waits for: when the lock is not free within a short spin, a few microseconds, it
// gives ErrBusy.
func (w *Writer) TryPut(frame []byte) (seq uint64, err error) {
	return w.put(frame, 0)
}

// lockLimit is how long a lock is waited for: ACH_LOCK_NS.
const lockLimit = 100 * time.Millisecond

func (w *Writer) put(frame []byte, limit time.Duration) (seq uint64, err error) {
	if err := w.c.enter(); err != nil {
		return 0, err
	}
	defer w.c.release()
	s := w.c.m.put(&w.result, frame, limit)
	if s != statusOK {
		return 0, w.c.fail(s)
	}
	seq = uint64(w.result.c.seq)
	w.c.saw(seq)
	if w.result.c.waiters != 0 && !w.closed {
		w.signal()
	}
	return seq, nil
}

// Stuck returns for how long the present broadcast has been hanging, 0 when none is in progress. Any goroutine may ask.
func (w *Writer) Stuck() time.Duration {
	at := w.hanging.Load()
	if at == 0 {
		return 0
	}
	return max(time.Since(w.began)-time.Duration(at), 1)
}

// Close ends the Writer. It waits at most 1 s for a broadcast in progress, then gives ErrWedged; that goroutine, its thread
// and the mapping stay until the broadcast returns, which Channel.Poison brings about.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	if w.wake == nil {
		return nil
	}
	close(w.wake)
	limit := time.NewTimer(time.Second)
	defer limit.Stop()
	select {
	case <-w.done:
		return nil
	case <-limit.C:
		return fmt.Errorf("channel %s: %w", w.c.name, ErrWedged)
	}
}

func (w *Writer) signal() {
	if w.wake == nil {
		if _, ok := w.c.retain(); !ok {
			return
		}
		w.wake, w.done, w.began = make(chan struct{}, 1), make(chan struct{}), time.Now().Add(-1)
		go w.broadcast()
	}
	select {
	case w.wake <- struct{}{}:
	default: // one is due already, and will wake for this frame too
	}
}

// broadcast runs until Close; it holds the mapping, which a hanging broadcast must not lose.
func (w *Writer) broadcast() {
	defer close(w.done)
	defer w.c.release()
	for range w.wake {
		w.hanging.Store(int64(time.Since(w.began)))
		w.c.fail(w.c.m.wake())
		w.hanging.Store(0)
	}
}
