package kernel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// Copy copies the frames of a mirror in shared memory into the kernel channel of the same name. Its goroutine makes the kernel
// channel, writes into it, and opens it again after a failure. So only that goroutine waits for the module and for programs
// that copy a frame of the kernel channel. Methods are safe for concurrent use.
type Copy struct {
	channels *Channels
	source   *localach.Channel
	isEvery  bool

	hasFrames chan struct{} // has a token after Wake
	quit      chan struct{} // closed by end
	end       func()
	hasEnded  chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	counts CopyCounts
	err    error     // why no frame can be written; nil while they can, and before the device was opened
	callAt time.Time // when the call on the device began that is running; zero if none is
}

// CopyCounts are the frames of a Copy.
type CopyCounts struct {
	Written uint64 // frames that were written into the kernel channel
	Skipped uint64 // frames of the mirror that were not, since a newer one replaced them or they do not fit
	Foreign uint64 // frames that other programs have written into the kernel channel
}

// Copy starts to copy the frames of a channel in shared memory, beginning with the newest one that the kernel channel lacks, or,
// with isEvery, with the oldest. It does not block. Close the copy before the channel.
func (c *Channels) Copy(source *localach.Channel, isEvery bool) *Copy {
	k := &Copy{
		channels: c, source: source, isEvery: isEvery,
		hasFrames: make(chan struct{}, 1), quit: make(chan struct{}), hasEnded: make(chan struct{}),
	}
	k.end = sync.OnceFunc(func() { close(k.quit) })
	go k.run()
	return k
}

// Wake makes the copy look for new frames. It does not block.
func (k *Copy) Wake() {
	select {
	case k.hasFrames <- struct{}{}:
	default:
	}
}

var errStuck = errors.New("the kernel's Ach module does not answer: a program holds the channel, or the module is broken")

// stuckAfter is the time after which a call on the device counts as a problem.
const stuckAfter = time.Second

// State returns the counters, and why frames are not written; nil if they are.
func (k *Copy) State() (CopyCounts, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.err
	if !k.callAt.IsZero() && time.Since(k.callAt) > stuckAfter {
		err = errStuck
	}
	return k.counts, err
}

// Close ends the copy and closes the device. If a call on the device does not return, Close returns after 1 s, and
// goroutine and device remain.
func (k *Copy) Close() {
	k.end()
	select {
	case <-k.hasEnded:
	case <-time.After(stuckAfter):
	}
}

// Bounds of the pause after a failure. It is short at first, since udev sets the permissions of a new device after a moment.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = retryAfter
)

func (k *Copy) run() {
	defer close(k.hasEnded)
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		if k.copyUntilFailure() {
			pause = firstRetry
		}
		select {
		case <-k.quit:
			return
		case <-time.After(pause):
		}
	}
}

// copyUntilFailure opens the device and copies frames until that fails or the copy is closed. isOpened reports whether the
// device could be opened.
func (k *Copy) copyUntilFailure() (isOpened bool) {
	k.begins()
	w, err := k.channels.openWriter(k.source.Name(), k.source.Geometry())
	k.ended(err)
	if err != nil {
		return false
	}
	defer k.channels.endWriter(k.source.Name(), w)
	if err := k.copyTo(w); !errors.Is(err, os.ErrClosed) {
		k.ended(err)
	}
	return true
}

func (k *Copy) copyTo(w *writer) error {
	var buf resident
	g := k.source.Geometry()
	if err := buf.grow(min(g.FrameCount*g.FrameSize, MaxMirrorBytes)); err != nil {
		return err
	}
	defer buf.free()
	r := k.source.ReaderAfter(w.record.written(k.source.Epoch(), w.lastSeq))
	for {
		n, err := k.next(r, buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = k.await(w, nil)
		case errors.Is(err, localach.ErrBusy):
			err = k.await(w, time.After(busyRetry))
		case errors.Is(err, io.ErrShortBuffer):
			r.Skip()
			err = k.skipped(r, n)
		case err == nil:
			err = k.write(w, r, buf[:n])
		}
		if err != nil {
			return err
		}
	}
}

// busyRetry is the pause while another process holds the lock of the mirror's file.
const busyRetry = time.Millisecond

func (k *Copy) next(r *localach.Reader, buf []byte) (int, error) {
	if k.isEvery {
		return r.TryNextOldest(buf)
	}
	return r.TryNext(buf)
}

// await waits until there may be a frame. It returns an error if the copy or the device was closed.
func (k *Copy) await(w *writer, retry <-chan time.Time) error {
	select {
	case <-k.hasFrames:
	case <-retry:
	case <-k.quit:
		return os.ErrClosed
	case <-w.closed:
		return w.check()
	}
	return nil
}

func (k *Copy) write(w *writer, r *localach.Reader, frame []byte) error {
	k.begins()
	foreign, err := w.write(k.source.Epoch(), r.Seq(), frame)
	if errors.Is(err, unix.EMSGSIZE) {
		return k.skipped(r, len(frame))
	}
	if gone := w.check(); err != nil && gone != nil {
		err = gone // Watch has closed the device
	}
	k.ended(err)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counts.Written++
	k.counts.Skipped += r.Missed()
	k.counts.Foreign += foreign
	return nil
}

// skipped counts a frame that does not fit into the kernel channel.
func (k *Copy) skipped(r *localach.Reader, size int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.callAt = time.Time{}
	k.counts.Skipped += 1 + r.Missed()
	k.err = fmt.Errorf("a frame of %d bytes does not fit into the kernel channel: remove the mirror, so that it is made again", size)
	return nil
}

// begins records that a call on the device begins.
func (k *Copy) begins() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.callAt = time.Now()
}

// ended records that the call has ended.
func (k *Copy) ended(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.callAt, k.err = time.Time{}, err
}
