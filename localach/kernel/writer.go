package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// writer is a kernel channel of ours that is written: the device and its record. It is for one goroutine, except close.
type writer struct {
	device
	frames *os.File
	record *record

	statusEvery time.Duration
	statusAt    time.Time
	lastSeq     uint64 // number of the newest frame in the kernel channel, as far as known
}

// openWriter opens the kernel channel of a mirror, which it makes if needed. It can block.
func (c *Channels) openWriter(name string, g localach.Geometry) (*writer, error) {
	c.making.Lock()
	defer c.making.Unlock()
	r, err := openRecord(c.shm, name)
	if err != nil {
		return nil, err
	}
	w, err := c.openOwn(name, g, r)
	if err != nil {
		if r.note.StartedAt == 0 {
			_ = r.remove()
		}
		r.close()
	}
	return w, err
}

// openOwn opens the device of a kernel channel that is ours, or makes it. c.making must be held.
func (c *Channels) openOwn(name string, g localach.Geometry, r *record) (*writer, error) {
	path := c.path(name)
	c.mu.Lock()
	isOpen := c.writers[name] != nil
	c.mu.Unlock()
	_, err := nodeAt(path)
	switch {
	case isOpen:
		return nil, fmt.Errorf("%s: the copy of the mirror's former file still uses it", path)
	case errors.Is(err, fs.ErrNotExist):
		if err := c.create(name, g, r); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !r.owns(path):
		return nil, fmt.Errorf("%s: %w; give the mirror another name with --as, or end the programs that use it and remove it", path, errForeign)
	}
	w, err := c.openNode(name, r)
	if err != nil {
		return nil, err
	}
	if err := w.prepare(); err != nil {
		c.closeWriter(name, w)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

// openNode opens the device of a kernel channel to write. It holds the lock meanwhile, so that Watch closes the device if its
// node is removed from now on.
func (c *Channels) openNode(name string, r *record) (*writer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkWatched(name); err != nil {
		return nil, err
	}
	at, err := nodeAt(c.path(name))
	if err != nil {
		return nil, err
	}
	if !r.owns(c.path(name)) {
		return nil, fmt.Errorf("%s: %w", c.path(name), errForeign)
	}
	w := &writer{device: newDevice(c.calls, c.path(name), at), record: r, statusEvery: statusEvery}
	if w.frames, err = w.open(unix.O_WRONLY); err != nil {
		return nil, withFix(err, "write")
	}
	w.status = w.frames // which reads nothing
	c.writers[name] = w
	return w, nil
}

// prepare completes the record and gets the number of the newest frame.
func (w *writer) prepare() error {
	if w.record.note.Inode == 0 {
		if err := w.record.made(w.node); err != nil {
			return err
		}
	}
	st, err := w.askStatus()
	w.lastSeq, w.statusAt = st.lastSeq, time.Now()
	return err
}

// write writes frame seq of a mirror's file. foreign is the number of frames that other programs have written, if that is known.
// It waits while another program copies a frame of the channel. After an error the device must be closed, except EMSGSIZE:
// then the frame does not fit.
func (w *writer) write(epoch, seq uint64, frame []byte) (foreign uint64, err error) {
	if err := w.record.writes(epoch, seq, w.lastSeq); err != nil {
		return 0, err
	}
	conn, err := w.frames.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = conn.Write(func(fd uintptr) bool {
		for _, failed = w.calls.transfer(unix.SYS_WRITE, int(fd), frame); failed == unix.EINTR; {
			_, failed = w.calls.transfer(unix.SYS_WRITE, int(fd), frame)
		}
		return true // EAGAIN is an error: a channel can always be written
	})
	if err := cmp.Or(err, failed); err != nil {
		return 0, fmt.Errorf("%s: write: %w", w.path, err)
	}
	w.lastSeq++
	if time.Since(w.statusAt) < w.statusEvery {
		return 0, nil
	}
	st, err := w.askStatus()
	foreign = st.lastSeq - min(st.lastSeq, w.lastSeq)
	w.lastSeq, w.statusAt = max(st.lastSeq, w.lastSeq), time.Now()
	return foreign, err
}

// endWriter closes a writer and its record.
func (c *Channels) endWriter(name string, w *writer) {
	c.closeWriter(name, w)
	w.record.close()
}

// closeWriter closes the device of a writer. Remove needs that.
func (c *Channels) closeWriter(name string, w *writer) {
	w.close(os.ErrClosed)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writers[name] == w {
		delete(c.writers, name)
	}
}
