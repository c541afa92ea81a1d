package localach

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// timer is a timerfd that is awaited through the runtime's poller. It is exact to a few microseconds, while time.Sleep and
// time.Timer may be up to a millisecond late.
type timer struct {
	file *os.File
	spec unix.ItimerSpec
	arm  func() // argument of wait; nil once it was called
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &timer{file: os.NewFile(uintptr(fd), "timerfd")}, nil
}

// set makes the timer fire once after the given time, which must not be negative. 0 stops the timer.
func (t *timer) set(after time.Duration) {
	conn, err := t.file.SyscallConn()
	if err != nil {
		return // the timer is closed, since the loop has ended
	}
	t.spec.Value = unix.NsecToTimespec(int64(after))
	_ = conn.Control(t.settime)
}

// settime sets the timer by a raw system call, since the call never blocks. An ordinary system call would wake the runtime's monitor
// thread each time.
func (t *timer) settime(fd uintptr) {
	if _, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&t.spec)), 0, 0, 0); errno != 0 {
		panic("timerfd_settime: " + errno.Error()) // cannot fail, since descriptor and time are valid
	}
}

// wait calls arm, which must set the timer, and blocks until the timer fires. After interrupt it returns os.ErrDeadlineExceeded.
// Only one goroutine may call wait.
//
// The descriptor is never read, which saves two system calls: the runtime's poller is edge-triggered, and each time that the timer
// fires is an edge. wait calls arm only when the poller no longer reports earlier edges, so that it reports the new one.
func (t *timer) wait(arm func()) error {
	conn, err := t.file.SyscallConn()
	if err != nil {
		return err
	}
	t.arm = arm
	return conn.Read(t.fired)
}

// fired reports whether the timer has fired. The runtime calls it once before wait blocks, when it only calls arm, and after each
// edge.
func (t *timer) fired(uintptr) bool {
	if t.arm == nil {
		return true
	}
	t.arm()
	t.arm = nil
	return false
}

func (t *timer) interrupt() { _ = t.file.SetReadDeadline(time.Unix(1, 0)) }
func (t *timer) close()     { _ = t.file.Close() }
