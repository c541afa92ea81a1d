package hosts

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timer is a timerfd. Go's own timers are up to a millisecond late if the process is
// otherwise idle.
type timer struct {
	file *os.File
	fd   int
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	return &timer{os.NewFile(uintptr(fd), "timer"), fd}, nil
}

// set makes wait return after d, or at once if d is negative.
func (t *timer) set(d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	return unix.TimerfdSettime(t.fd, 0, &spec, nil)
}

// wait blocks until the timer fires. It fails when the timer is closed.
func (t *timer) wait() error {
	var count [8]byte
	_, err := t.file.Read(count[:])
	return err
}
