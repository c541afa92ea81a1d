package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Cmd is an exec.Cmd that runs on a host of a lab. Its Process is the program
// itself, with its process id outside of the host, so that it can be killed,
// stopped and continued. The lab's Close kills it and waits for it. Do not use
// fields of exec.Cmd that need a context.
type Cmd struct {
	*exec.Cmd
	lab  *Lab
	pid  int // process id of the host's first process
	err  error
	once sync.Once
	wait error
}

// Command returns a Cmd that runs a program on a host, with this process's
// environment and working directory. It looks name up as exec.Command does. If the
// host is unknown, Start fails.
func (l *Lab) Command(host, name string, args ...string) *Cmd {
	pid, err := l.PID(host)
	return &Cmd{Cmd: exec.Command(name, args...), lab: l, pid: pid, err: err}
}

// Start starts the program. It does not wait for its end.
func (c *Cmd) Start() error {
	if c.err != nil {
		return c.err
	}
	if c.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		c.Dir = dir
	}
	result := make(chan error)
	go func() {
		// Never unlock the thread: it must end with this goroutine, since it cannot
		// return to the namespaces of the other threads.
		runtime.LockOSThread()
		err := Enter(c.pid, c.Dir)
		if err == nil {
			err = c.Cmd.Start()
		}
		result <- err
	}()
	if err := <-result; err != nil {
		return err
	}
	c.lab.mu.Lock()
	c.lab.commands = append(c.lab.commands, c)
	c.lab.mu.Unlock()
	return nil
}

// Wait waits for the end of the program, like exec.Cmd. It may be called again.
func (c *Cmd) Wait() error {
	if c.Process == nil {
		return errors.New("hosts: Wait before Start")
	}
	c.once.Do(func() { c.wait = c.Cmd.Wait() })
	return c.wait
}

// Run starts the program and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the program and returns its standard output.
func (c *Cmd) Output() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

// CombinedOutput runs the program and returns its standard output and standard error.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// Enter moves the calling thread, and processes that it starts, into the namespaces
// of the host whose first process is pid, and changes to the directory dir of that
// host. The caller must have locked the thread and must not unlock it. Enter needs
// Linux 5.8.
func Enter(pid int, dir string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("enter host: process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	// A thread that shares its working directory cannot change mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter host: %w", err)
	}
	const all = unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	if err := unix.Setns(fd, all); err != nil {
		return fmt.Errorf("enter host: %w", err)
	}
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("the host has no such working directory (its /run and /dev/shm are its own): %w", err)
	}
	return nil
}
