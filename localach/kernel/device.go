package kernel

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// node identifies a device node. A device that is created again has another one.
type node struct {
	inode     uint64
	createdAt unix.StatxTimestamp // zero if the kernel does not report it
}

func (n node) String() string {
	return fmt.Sprintf("%d %d.%09d", n.inode, n.createdAt.Sec, n.createdAt.Nsec)
}

func nodeAt(path string) (node, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return node{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return node{st.Ino, st.Btime}, nil
}

// device holds the descriptors of one device, and why they are closed. Safe for concurrent use, except open.
type device struct {
	path   string
	node   node
	calls  calls
	status *os.File      // the status is requested of it, which marks all frames as read for this descriptor
	closed chan struct{} // closed with the descriptors
	// released is closed when the kernel has released the descriptors.
	released chan struct{}

	mu       sync.Mutex
	files    []*os.File // all descriptors
	failed   error      // why the descriptors are closed; nil while they are open
	failedAt time.Time  // when a call on the device failed; zero if the descriptors were closed for another reason
}

func newDevice(c calls, path string, at node) device {
	return device{path: path, node: at, calls: c, closed: make(chan struct{}), released: make(chan struct{})}
}

// open opens a descriptor of the device that uses the runtime's poller.
func (d *device) open(access int) (*os.File, error) {
	fd, err := d.calls.open(d.path, access)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), d.path)
	d.files = append(d.files, file)
	return file, nil
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

// closeTimeout is how long close waits for a call on the device.
const closeTimeout = 100 * time.Millisecond

// close closes the descriptors, unless they are closed. check returns why from then on. When close returns, the kernel has
// released the descriptors. If a call on the device takes longer than closeTimeout, the kernel releases them when the call ends.
func (d *device) close(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return
	}
	d.failed = why
	close(d.closed)
	go func() {
		defer close(d.released)
		for _, file := range d.files {
			file.Close()
		}
	}()
	select {
	case <-d.released:
	case <-time.After(closeTimeout):
	}
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

// isOrphan reports whether the device has no node any more, and the kernel has not released the descriptors.
func (d *device) isOrphan() bool {
	select {
	case <-d.released:
		return false
	default:
		return !d.hasNode()
	}
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
