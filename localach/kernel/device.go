package kernel

import (
	"errors"
	"fmt"
	"os"
	"sync"
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

// node identifies a device node. A device that is created again has another one.
type node struct {
	inode     uint64
	createdAt unix.StatxTimestamp // zero if the kernel does not report it
}

func nodeAt(path string) (node, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return node{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return node{st.Ino, st.Btime}, nil
}

// device is an open device and the goroutine that reads its frames.
type device struct {
	path   string
	node   node
	calls  calls
	frames *os.File // frames are read from it
	status *os.File // the status is requested of it, since that marks frames as read

	statusEvery time.Duration

	ring     *localach.Channel // gets the frames
	hasEnded chan struct{}     // closed when the goroutine has ended; nil before it starts

	missed atomic.Uint64 // frames that were replaced before they could be read, as of the last status

	mu       sync.Mutex
	failed   error     // why the descriptors are closed; nil while they are open
	failedAt time.Time // when a call on the device failed; zero if the descriptors were closed for another reason

	limit int // size of the channel in the kernel, bytes, so the largest size of buf

	// Used by the goroutine only.
	buf      []byte // resident, since the module copies frames into it under a lock that writers need
	n        int    // size of the frame in buf, bytes
	err      error  // error of the last read
	statusAt time.Time
	skipped  uint64 // number of the last frame that was put before the first one that is read
	count    uint64 // number of frames that were read
}

// openDevice opens a device, which then needs a ring. After an error the device is closed. at is its node.
func openDevice(c calls, path string, at node) (*device, error) {
	d := &device{path: path, node: at, calls: c, statusEvery: statusEvery}
	var err error
	if d.status, err = d.open(); err != nil {
		return nil, err
	}
	if d.frames, err = d.open(); err != nil {
		d.status.Close()
		return nil, err
	}
	if err := d.prepare(); err != nil {
		return d, d.fail(err)
	}
	return d, nil
}

// prepare sets the mode of reads, and gets the size of the channel and the number of its newest frame.
func (d *device) prepare() error {
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

// open opens a descriptor of the device that uses the runtime's poller.
func (d *device) open() (*os.File, error) {
	fd, err := d.calls.open(d.path)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), d.path), nil
}

func (d *device) askStatus() (st deviceStatus, err error) {
	err = control(d.status, func(fd int) error { return d.calls.ioctl(fd, getStatus, unsafe.Pointer(&st)) })
	return st, err
}

// control calls f with the descriptor of a file, which is not closed meanwhile.
func control(file *os.File, f func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// close closes the descriptors, unless they are closed. check returns why from then on. When close returns, the kernel has
// released both descriptors.
func (d *device) close(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return
	}
	d.failed = why
	d.frames.Close()
	d.status.Close()
}

// fail closes the descriptors after a failed call. It returns err with the path.
func (d *device) fail(err error) error {
	err = fmt.Errorf("%s: %w", d.path, err)
	d.close(err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failedAt = time.Now()
	return err
}

// failure returns why a call on the device failed, if that was less than the given time ago, else nil.
func (d *device) failure(within time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failedAt.IsZero() || time.Since(d.failedAt) >= within {
		return nil
	}
	return d.failed
}

// hasNode reports whether the device still has its node.
func (d *device) hasNode() bool {
	now, err := nodeAt(d.path)
	return err == nil && now == d.node
}

// check returns nil while the device is open and has its node.
func (d *device) check() error {
	d.mu.Lock()
	failed := d.failed
	d.mu.Unlock()
	if failed != nil {
		return failed
	}
	now, err := nodeAt(d.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: %w", d.path, localach.ErrUnlinked)
	case err != nil:
		return err
	case now != d.node:
		return fmt.Errorf("%s: %w", d.path, localach.ErrReplaced)
	}
	return nil
}

// start starts the goroutine that reads the frames.
func (d *device) start() error {
	if err := d.grow(min(firstBuffer, d.limit)); err != nil {
		return err
	}
	d.hasEnded = make(chan struct{})
	go d.run()
	return nil
}

// stop closes the device and waits for its goroutine.
func (d *device) stop() {
	d.close(os.ErrClosed)
	if d.hasEnded != nil {
		<-d.hasEnded
	}
}

// run puts each frame that it reads into the ring, until the device is closed or fails.
func (d *device) run() {
	defer close(d.hasEnded)
	defer d.free()
	w := d.ring.Writer()
	defer w.Close()
	conn, err := d.frames.SyscallConn()
	for err == nil {
		err = conn.Read(d.read)
		switch {
		case err != nil: // closed
		case d.err == unix.EMSGSIZE && len(d.buf) < d.limit:
			err = d.grow(min(4*len(d.buf), d.limit))
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
func (d *device) read(fd uintptr) bool {
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

func (d *device) tryRead(fd uintptr) {
	for d.n, d.err = d.calls.read(int(fd), d.buf); d.err == unix.EINTR; d.n, d.err = d.calls.read(int(fd), d.buf) {
	}
}

// grow replaces the buffer by a larger one, whose pages are in memory and stay there if the process may lock memory.
func (d *device) grow(size int) error {
	buf, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	_ = unix.Mlock(buf)
	d.free()
	d.buf = buf
	return nil
}

func (d *device) free() {
	if d.buf != nil {
		_ = unix.Munmap(d.buf)
		d.buf = nil
	}
}
