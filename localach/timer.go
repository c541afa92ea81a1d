package localach

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// timer is a timerfd that is read through the runtime's poller. It is exact to a few microseconds, while time.Sleep and
// time.Timer may be up to a millisecond late.
type timer struct {
	file *os.File
	buf  [8]byte
	spec unix.ItimerSpec
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

// settime is a raw system call, like that of fired, since it never blocks.
func (t *timer) settime(fd uintptr) {
	if _, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&t.spec)), 0, 0, 0); errno != 0 {
		panic("timerfd_settime: " + errno.Error()) // cannot fail, since descriptor and time are valid
	}
}

// wait blocks until the timer fires. After interrupt it returns os.ErrDeadlineExceeded. It reads by raw system calls, which never
// block here, since File.Read would wake the runtime's monitor thread each time.
func (t *timer) wait() error {
	conn, err := t.file.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(t.fired)
}

func (t *timer) fired(fd uintptr) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&t.buf)), unsafe.Sizeof(t.buf))
	return errno != unix.EAGAIN
}

func (t *timer) interrupt() { _ = t.file.SetReadDeadline(time.Unix(1, 0)) }
func (t *timer) close()     { _ = t.file.Close() }
