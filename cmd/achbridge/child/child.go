package child

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/ui"
)

// Signals are the signals to pass to Program.Run.
var Signals = []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}

// StopTime is the time that a program has after SIGTERM, when the daemon has failed, before it gets SIGKILL.
const StopTime = 10 * time.Second

// Exit codes for a program that cannot be started, and the base of those for signals, as in a POSIX shell.
const (
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignal    = 128
)

// Program is a program to run with the daemon.
type Program struct {
	Args     []string         // the program, as a path or a name in PATH, and its arguments
	Signals  <-chan os.Signal // signals to pass on; the caller registers it for Signals before Run
	StopTime time.Duration    // usually StopTime
	Log      *slog.Logger
}

// Daemon is the daemon with which a program runs.
type Daemon struct {
	Serve func(context.Context) error // runs the daemon until the context ends
	Ready func(context.Context) error // waits until the daemon answers
}

// Run runs the daemon and, when it is ready, the program. It blocks until both have ended. When the program
// ends, Run stops the daemon and returns nil for status 0, otherwise an error with the program's status as exit code,
// 128+N for signal N. When the daemon ends by itself, Run stops the program and returns the daemon's error. When the
// program cannot be started, the exit code is 127 (not found) or 126. The program inherits the environment, the
// standard streams and the working directory. Only one Run per process, which may start no other processes as PID 1.
func (p Program) Run(ctx context.Context, d Daemon) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served, ready := make(chan error, 1), make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	go func() { ready <- d.Ready(ctx) }()

	var err error
	select {
	case err := <-served: // its end makes Ready return
		stop()
		<-ready
		return endError(err)
	case sig := <-p.Signals:
		err = signalError(p.Args[0], "not started, stopped", sig.(syscall.Signal))
	case err = <-ready:
	}
	if err == nil {
		return p.runWith(served, stop)
	}
	stop()
	return errors.Join(err, <-served)
}

// endError returns err, or an error for a daemon that ended without one and without a request.
func endError(err error) error {
	if err == nil {
		return ui.Failure(errors.New("daemon: ended by itself"), "read the log above")
	}
	return err
}

// runWith starts the program and returns when it and the daemon have ended. stop stops the daemon.
func (p Program) runWith(served <-chan error, stop context.CancelFunc) error {
	process, err := p.start()
	if err != nil {
		stop()
		return errors.Join(err, <-served)
	}
	exited := make(chan unix.WaitStatus, 1)
	go func() { exited <- wait(process.Pid) }()
	p.Log.Info("program started", "program", p.Args[0], "pid", process.Pid)

	var failure error
	var kill <-chan time.Time // after the daemon's end
	for {
		select {
		case sig := <-p.Signals:
			_ = process.Signal(sig) // fails only if the program has just ended
		case err := <-served:
			failure, served = endError(err), nil
			p.Log.Error("daemon ended, stopping the program", "program", p.Args[0], "err", failure)
			_ = process.Signal(unix.SIGTERM)
			kill = time.After(p.StopTime)
		case <-kill:
			p.Log.Error("program has not ended after SIGTERM, killing it", "program", p.Args[0], "after", p.StopTime)
			_ = unix.Kill(-process.Pid, unix.SIGKILL) // its process group
		case status := <-exited:
			stop()
			if failure != nil {
				return failure
			}
			if err := <-served; err != nil {
				p.Log.Error("daemon ended with an error after the program", "err", err)
			}
			return statusError(p.Args[0], status)
		}
	}
}

// start starts the program in its own process group, so that Ctrl-C reaches it only once.
func (p Program) start() (*os.Process, error) {
	path, err := exec.LookPath(p.Args[0])
	if err != nil {
		return nil, startError(p.Args[0], err)
	}
	attr := &syscall.SysProcAttr{Setpgid: true}
	if group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil && group == unix.Getpgrp() {
		attr.Foreground = true // it may read the terminal; Ctty is 0, standard input
	}
	process, err := os.StartProcess(path, p.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attr})
	if err != nil {
		return nil, startError(p.Args[0], err)
	}
	return process, nil
}

func startError(name string, err error) error {
	cause := err // the new error adds the name
	if e, ok := errors.AsType[*exec.Error](err); ok {
		cause = e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		cause = e.Err
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return ui.Status(exitNotFound, fmt.Errorf("program %s: %w", name, cause), "name a program in PATH, or its path, after --")
	}
	return ui.Status(exitCannotRun, fmt.Errorf("program %s: %w", name, cause), "make it executable: chmod +x, with a #! line if it is a script")
}

// wait blocks until the child pid has ended and returns its status. As PID 1 it also reaps all other children.
func wait(pid int) unix.WaitStatus {
	which := pid
	if os.Getpid() == 1 {
		which = -1
	}
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(which, &status, 0, nil)
		if got == pid {
			return status
		}
		if err != nil && err != unix.EINTR {
			panic(fmt.Sprintf("wait for process %d: %v", pid, err)) // somebody else has reaped it
		}
	}
}

// statusError returns nil for status 0, else an error with the exit code that a shell would have.
func statusError(name string, status unix.WaitStatus) error {
	switch {
	case status.Signaled():
		return signalError(name, "ended", status.Signal())
	case status.ExitStatus() != 0:
		return ui.Status(status.ExitStatus(), fmt.Errorf("program %s: exit status %d", name, status.ExitStatus()), "")
	}
	return nil
}

// signalError returns an error with the exit code that a shell would have after sig.
func signalError(name, outcome string, sig syscall.Signal) error {
	return ui.Status(exitSignal+int(sig), fmt.Errorf("program %s: %s by signal %d (%s)", name, outcome, int(sig), unix.SignalName(sig)), "")
}
