// Package kernelmodule uses the kernel module of testnet/kmod, which behaves like that of Ach. packaging/vm.sh loads it.
//
//	m := kernelmodule.Loaded(t)
//	err := m.Create("imu", 4, 64)
//	err = m.Put("imu", frame)
package kernelmodule

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const parameters = "/sys/module/achtest/parameters/"

// Module is the loaded module.
type Module struct {
	t       *testing.T
	control int // descriptor of /dev/achctrl
}

// Loaded returns the module, or skips the test if it is not loaded. At the end of the test all channels of the test are removed.
func Loaded(t *testing.T) *Module {
	t.Helper()
	if _, err := os.Stat(parameters); err != nil {
		t.Skip("the kernel module for tests is not loaded: TRY=kernel bash packaging/vm.sh does that")
	}
	fd, err := unix.Open("/dev/achctrl", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return &Module{t, fd}
}

// Requests of the control device and of channels.
const (
	createChannel = 0x40585101
	unlinkChannel = 0x40415102
	setMode       = 0x40185103
	getStatus     = 0x80305105

	newestOnly = 2 // mode of a descriptor that reads the newest frame and does not wait
)

// Create creates a channel.
func (m *Module) Create(name string, frames, size int) error {
	var arg struct {
		frames, size uint64
		clock        int32
		name         [65]byte
	}
	arg.frames, arg.size, arg.clock = uint64(frames), uint64(size), unix.CLOCK_MONOTONIC
	copy(arg.name[:], name)
	m.t.Cleanup(func() { _ = m.Unlink(name) })
	return m.ioctl(createChannel, unsafe.Pointer(&arg))
}

// Unlink removes a channel.
func (m *Module) Unlink(name string) error {
	var arg [65]byte
	copy(arg[:], name)
	return m.ioctl(unlinkChannel, unsafe.Pointer(&arg))
}

func (m *Module) ioctl(request uint, arg unsafe.Pointer) error { return ioctl(m.control, request, arg) }

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// Put puts a frame into a channel.
func (m *Module) Put(name string, frame []byte) error {
	fd, err := unix.Open("/dev/ach-"+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, frame)
	return err
}

// Newest returns the newest frame of a channel. It returns EAGAIN if there is none.
func (m *Module) Newest(name string) (frame []byte, err error) {
	err = m.with(name, func(fd int) error {
		arg := struct {
			options int32
			_       [5]int32
		}{options: newestOnly}
		if err := ioctl(fd, setMode, unsafe.Pointer(&arg)); err != nil {
			return err
		}
		buf := make([]byte, 1<<20)
		n, err := unix.Read(fd, buf)
		frame = buf[:max(n, 0)]
		return err
	})
	return frame, err
}

// LastSeq returns how many frames were put into a channel.
func (m *Module) LastSeq(name string) (seq uint64, err error) {
	var arg struct {
		_       [4]uint64
		lastSeq uint64
		_       uint64
	}
	err = m.with(name, func(fd int) error { return ioctl(fd, getStatus, unsafe.Pointer(&arg)) })
	return arg.lastSeq, err
}

// with calls f with a descriptor of a channel.
func (m *Module) with(name string, f func(fd int) error) error {
	fd, err := unix.Open("/dev/ach-"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

// Faults returns how many descriptors were closed, and channels created, when the module of Ach would have crashed.
func (m *Module) Faults() int { return m.parameter("faults") }

// Ioctls returns how many ioctls on channels there were.
func (m *Module) Ioctls() int { return m.parameter("ioctls") }

// Descriptors returns how many descriptors of channels are open.
func (m *Module) Descriptors() int { return m.parameter("descriptors") }

func (m *Module) parameter(name string) int {
	text, err := os.ReadFile(parameters + name)
	if err != nil {
		m.t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}
