package localach

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Writer puts frames into a channel. It is for one goroutine at a time, except for Stuck.
type Writer struct {
	c          *Channel
	result     putResult
	wake       chan struct{} // requests a broadcast; nil until a reader first waited
	done       chan struct{} // closed when the broadcaster has ended
	startedAt  time.Time     // start of the broadcaster
	stuckSince atomic.Int64  // since when readers wait to be woken, in ns since startedAt, or 0
	closed     bool
	gaveUp     atomic.Bool // the broadcaster must stop
}

// Put puts a copy of frame and returns its sequence number. It waits for the lock for at most 100 ms (ErrBusy) and never for a
// reader. It wakes up to 8 readers that wait on the condition variable, if that needs no waiting. Otherwise another goroutine
// wakes them, which can take time, or be impossible after a process was killed while it waited (see Stuck). A frame may fill the
// whole data area, but not more (ErrTooLarge), and must not be empty. Put does not allocate, except to start that goroutine.
func (w *Writer) Put(frame []byte) (seq uint64, err error) {
	return w.put(frame, lockLimit)
}

// TryPut does what Put does, but returns ErrBusy if the lock is not free within a few microseconds.
func (w *Writer) TryPut(frame []byte) (seq uint64, err error) {
	return w.put(frame, 0)
}

// PutFirst does what Put does if no frame was ever put into the channel. Otherwise it puts nothing and returns ErrHasFrames. It
// holds the lock from the check to the end of the put, so its frame is certainly the first.
func (w *Writer) PutFirst(frame []byte) (seq uint64, err error) {
	w.result.c.first = 1
	defer func() { w.result.c.first = 0 }()
	return w.put(frame, lockLimit)
}

// lockLimit is the longest wait for a lock, ACH_LOCK_NS.
const lockLimit = 100 * time.Millisecond

func (w *Writer) put(frame []byte, limit time.Duration) (seq uint64, err error) {
	if err := w.c.enterToWrite(); err != nil {
		return 0, err
	}
	defer w.c.release()
	s := w.c.m.put(&w.result, frame, limit)
	if s != statusOK {
		return 0, w.c.fail(s)
	}
	seq = uint64(w.result.c.seq)
	w.c.noteSeq(seq)
	if w.result.c.waiters != 0 && !w.closed {
		w.signal()
	}
	return seq, nil
}

// Stuck returns how long the writer has failed to wake waiting readers, or 0 if there are none to wake. It is safe for
// concurrent use.
func (w *Writer) Stuck() time.Duration {
	at := w.stuckSince.Load()
	if at == 0 {
		return 0
	}
	return max(time.Since(w.startedAt)-time.Duration(at), 1)
}

// wakeFor is how long Close tries to wake the readers that wait for the last frame.
const wakeFor = time.Second

// Close closes the Writer. It returns ErrWedged if the readers that wait for the last frame cannot be woken within 1 s.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	if w.wake == nil {
		return nil
	}
	close(w.wake)
	select {
	case <-w.done:
	case <-time.After(wakeFor):
		w.gaveUp.Store(true)
		<-w.done
	}
	if w.stuckSince.Swap(0) != 0 {
		return fmt.Errorf("channel %s: %w", w.c.name, ErrWedged)
	}
	return nil
}

func (w *Writer) signal() {
	if w.wake == nil {
		if _, ok := w.c.retain(); !ok {
			return
		}
		w.wake, w.done, w.startedAt = make(chan struct{}, 1), make(chan struct{}), time.Now().Add(-1)
		go w.broadcast()
	}
	select {
	case w.wake <- struct{}{}:
	default: // the requested broadcast also wakes the readers for this frame
	}
}

// broadcast wakes readers until Close. It tries until all readers are woken, since a process that prevents it may only be stopped.
func (w *Writer) broadcast() {
	defer close(w.done)
	defer w.c.release()
	for range w.wake {
		w.stuckSince.Store(int64(time.Since(w.startedAt)))
		s := w.c.m.wake()
		for pause := minWakeRetry; s == statusWedged && !w.gaveUp.Load(); pause = min(2*pause, maxWakeRetry) {
			time.Sleep(pause)
			s = w.c.m.wake()
		}
		if s == statusWedged {
			continue
		}
		w.c.fail(s)
		w.stuckSince.Store(0)
	}
}

// Bounds of the broadcaster's pause after it could not wake all readers. The pause grows.
const (
	minWakeRetry = time.Millisecond
	maxWakeRetry = 100 * time.Millisecond
)
