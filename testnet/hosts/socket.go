package hosts

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// In calls open in the network of a host and returns its results. Sockets that open
// creates stay in that network. open must not create sockets in other goroutines.
func In[S any](l *Lab, host string, open func() (S, error)) (opened S, err error) {
	pid, err := l.PID(host)
	if err != nil {
		return opened, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread ends with this goroutine
		if err = enterNetwork(pid); err == nil {
			opened, err = open()
		}
	}()
	<-done
	return opened, err
}

func enterNetwork(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("enter network: process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network: %w", err)
	}
	return nil
}
