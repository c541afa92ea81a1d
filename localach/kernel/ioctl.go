package kernel

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls are the system calls on devices. Tests without the module replace them.
type calls interface {
	// open opens a device for reading. The descriptor does not block.
	open(path string) (fd int, err error)
	// ioctl sets or gets what arg points to. arg is a *mode or a *deviceStatus.
	ioctl(fd int, request uint, arg unsafe.Pointer) error
	// read reads one frame: EAGAIN without one, EMSGSIZE if buf is too small for it. It must not block.
	read(fd int, buf []byte) (int, error)
}

// Requests of the module (on 64-bit machines).
const (
	setMode   = 0x40185103 // takes a *mode
	getStatus = 0x80305105 // fills a *deviceStatus, and marks all frames as read for the descriptor that asks
)

// mode is the behaviour of reads on a descriptor.
type mode struct {
	options int32
	_       int32
	timeout unix.Timespec
}

// newestOnly makes read return the newest frame, without waiting. A new descriptor waits, and begins with the oldest frame.
const newestOnly = 2

// deviceStatus is the state of a device.
type deviceStatus struct {
	options  int32
	_        int32
	bytes    int64 // all memory of the channel, with its header
	count    uint64
	unread   uint64
	lastSeq  uint64
	lastRead uint64
}

// systemCalls are the calls to the kernel.
type systemCalls struct{}

// open opens with O_NONBLOCK for the runtime's poller. The module ignores that flag.
func (systemCalls) open(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func (systemCalls) ioctl(fd int, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
		return os.NewSyscallError("ioctl", errno)
	}
	return nil
}

func (systemCalls) read(fd int, buf []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
