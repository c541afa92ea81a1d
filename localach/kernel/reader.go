package kernel

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

const (
	// statusEvery is the shortest time between two requests for a device's status.
	statusEvery = 10 * time.Second
	// maxBytes is the size of the largest kernel channel that is read. Its copy takes as much memory.
	maxBytes = 16 << 20
	// ringFrames is the number of frames in the private channel. The number in the kernel is not known.
	ringFrames = 16
	// firstBuffer is the first size of the buffer for frames, in bytes.
	firstBuffer = 4 << 10
)

var errTooLarge = errors.New("kernel channel too large")

// reader is a kernel channel that is read: the device, and the goroutine that reads its frames.
type reader struct {
	device
	frames *os.File // frames are read from it

	statusEvery time.Duration

	ring     *localach.Channel // gets the frames
	hasEnded chan struct{}     // closed when the goroutine has ended; nil before it starts

	missed atomic.Uint64 // frames that were replaced before they could be read, as of the last status

	limit int // size of the channel in the kernel, bytes, so the largest size of buf

	// Used by the goroutine only.
	buf      resident
	n        int   // size of the frame in buf, bytes
	err      error // error of the last read
	statusAt time.Time
	skipped  uint64 // number of the last frame that was put before the first one that is read
	count    uint64 // number of frames that were read
}

// openReader opens a device, which then needs a ring. After an error the device is closed. at is its node.
func openReader(c calls, path string, at node) (*reader, error) {
	d := &reader{device: newDevice(c, path, at), statusEvery: statusEvery}
	var err error
	if d.status, err = d.open(unix.O_RDONLY); err == nil {
		d.frames, err = d.open(unix.O_RDONLY)
	}
	if err != nil {
		d.close(err)
		return nil, err
	}
	if err := d.prepare(); err != nil {
		return d, d.fail(err)
	}
	return d, nil
}

// prepare sets the mode of reads, and gets the size of the channel and the number of its newest frame.
func (d *reader) prepare() error {
	set := mode{options: newestOnly}
	if err := control(d.frames, func(fd int) error { return d.calls.ioctl(fd, setMode, unsafe.Pointer(&set)) }); err != nil {
		return err
	}
	st, err := d.askStatus()
	switch {
	case err != nil:
		return err
	case st.bytes > maxBytes:
		return fmt.Errorf("%w: it has %d MiB, at most %d are read", errTooLarge, st.bytes>>20, maxBytes>>20)
	case st.bytes <= 0:
		return fmt.Errorf("its size is said to be %d bytes", st.bytes)
	}
	d.limit, d.statusAt, d.skipped = int(st.bytes), time.Now(), max(st.lastSeq, 1)-1
	return nil
}

// start starts the goroutine that reads the frames.
func (d *reader) start() error {
	if err := d.buf.grow(min(firstBuffer, d.limit)); err != nil {
		return err
	}
	d.hasEnded = make(chan struct{})
	go d.run()
	return nil
}

// stop closes the device and waits for its goroutine.
func (d *reader) stop() {
	d.close(os.ErrClosed)
	if d.hasEnded != nil {
		<-d.hasEnded
	}
}

// run puts each frame that it reads into the ring, until the device is closed or fails.
func (d *reader) run() {
	defer close(d.hasEnded)
	defer d.buf.free()
	w := d.ring.Writer()
	defer w.Close()
	conn, err := d.frames.SyscallConn()
	for err == nil {
		err = conn.Read(d.read)
		switch {
		case err != nil: // closed
		case d.err == unix.EMSGSIZE && len(d.buf) < d.limit:
			err = d.buf.grow(min(4*len(d.buf), d.limit))
		case d.err != nil:
			err = d.err
		default:
			d.count++
			_, err = w.Put(d.buf[:d.n])
		}
	}
	if d.check() == nil {
		_ = d.fail(err) // check returns it
	}
}

// read reads the newest frame. It returns false if there is none, and the poller then waits for one.
func (d *reader) read(fd uintptr) bool {
	d.tryRead(fd)
	if d.err == unix.EAGAIN && time.Since(d.statusAt) >= d.statusEvery {
		st, err := d.askStatus()
		d.statusAt = time.Now()
		if d.tryRead(fd); d.err == unix.EAGAIN && err == nil { // no frame was put since the last read
			d.missed.Store(st.lastSeq - min(st.lastSeq, d.skipped+d.count))
		}
	}
	return d.err != unix.EAGAIN
}

func (d *reader) tryRead(fd uintptr) {
	for d.n, d.err = d.calls.transfer(unix.SYS_READ, int(fd), d.buf); d.err == unix.EINTR; d.n, d.err = d.calls.transfer(unix.SYS_READ, int(fd), d.buf) {
	}
}
