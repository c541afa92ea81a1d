package kernel

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls are the system calls on devices. Tests without the module replace them.
type calls interface {
	// open opens a device. access is O_RDONLY, O_WRONLY or O_RDWR. The descriptor does not block.
	open(path string, access int) (fd int, err error)
	// ioctl sets or gets what arg points to, a value of the type that the request names.
	ioctl(fd int, request uint, arg unsafe.Pointer) error
	// transfer reads one frame (SYS_READ: EAGAIN without one, EMSGSIZE if buf is too small for it), or writes one (SYS_WRITE).
	transfer(call uintptr, fd int, buf []byte) (int, error)
}

// Requests of the module (on 64-bit machines).
const (
	createChannel = 0x40585101 // takes a *creation; only on the control device
	unlinkChannel = 0x40415102 // takes a *channelName; only on the control device

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

// channelName is the name of a channel, with zeros up to its end.
type channelName [65]byte

func nameArgument(name string) (text channelName) {
	copy(text[:], name)
	return text
}

// creation describes a new channel.
type creation struct {
	frames, size uint64
	clock        int32
	name         channelName
}

// systemCalls are the calls to the kernel.
type systemCalls struct{}

// open opens with O_NONBLOCK for the runtime's poller. The module ignores that flag.
func (systemCalls) open(path string, access int) (int, error) {
	fd, err := unix.Open(path, access|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
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

// transfer reads without telling the runtime, since a read never waits. A write waits while another program copies a frame.
func (systemCalls) transfer(call uintptr, fd int, buf []byte) (int, error) {
	do := unix.RawSyscall
	if call == unix.SYS_WRITE {
		do = unix.Syscall
	}
	n, _, errno := do(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
