package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The guard is a process between the lab and its script. All that the script
// starts and leaves becomes the guard's child (PR_SET_CHILD_SUBREAPER), and when
// the lab dies, however it does, the guard sees the end of a pipe, kills them
// and removes the folder with the command lab.
const guardName = "achbridge-lab-guard"

type guard struct {
	cmd         *exec.Cmd
	pipe        *os.File
	stop        func()
	endRequests int // to end; only for pass
}

func startGuard(socket string, script []string) (*guard, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "achbridge-lab-")
	if err != nil {
		return nil, err
	}
	if err := os.Symlink(exe, filepath.Join(dir, "lab")); err != nil {
		return nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(exe, append([]string{dir}, script...)...)
	cmd.Args[0] = guardName
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	// Without a terminal it hears of signals from us alone, once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !atTerminal()}
	cmd.Env = append(promptOf(os.Environ(), "lab"), socketEnv+"="+socket, "PATH="+dir+":"+os.Getenv("PATH"))
	signals := catchSignals()
	if err := cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("start guard: %w", err)
	}
	g := &guard{cmd: cmd, pipe: ours}
	g.stop = passSignals(signals, cmd.SysProcAttr.Setpgid, g.pass)
	return g, nil
}

// pass sends a signal on to the script; who asks it twice to end means it.
func (g *guard) pass(s syscall.Signal) {
	if asksToEnd(s) {
		if g.endRequests++; g.endRequests > 1 {
			g.pipe.Close()
		}
	}
	g.cmd.Process.Signal(s)
}

// wait returns the script's exit status once all it started is gone.
func (g *guard) wait() error {
	err := g.cmd.Wait()
	g.stop()
	g.pipe.Close()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exitStatus(unix.WaitStatus(exit.Sys().(syscall.WaitStatus)))
	}
	return err
}

// guardMain becomes the guard in the process that startGuard made.
func guardMain() {
	if os.Args[0] != guardName {
		return
	}
	// The script dies with the thread that started it: keep that one.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintf(os.Stderr, "lab: guard: %v\n", err)
		os.Exit(1)
	}
	err := guardScript(os.Args[1], os.Args[2:])
	var status statusError
	if errors.As(err, &status) {
		os.Exit(int(status))
	}
	os.Exit(0)
}

func guardScript(dir string, script []string) error {
	defer os.RemoveAll(dir)
	// Its own process group, unless a terminal's Ctrl-C is to reach it there.
	ownGroup := !atTerminal()
	cmd := exec.Command(script[0], script[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: ownGroup}
	signals := catchSignals()
	if err := cmd.Start(); err != nil {
		return notStarted(script[0], err)
	}
	group := cmd.Process.Pid // all of it, as a terminal does: shells wait for their children first
	if ownGroup {
		group = -group
	}
	defer passSignals(signals, ownGroup, func(s syscall.Signal) { unix.Kill(group, s) })()
	status, _, err := reap(cmd.Process)
	if err != nil {
		return err
	}
	killChildren()
	return exitStatus(status)
}

// labPipe is what the lab, or lab exec, holds open as long as it lives.
const labPipe = 3

// reap waits for the end of a child and of the orphans that end before. When the pipe
// ends, it kills the child, and reports that we are alone.
func reap(p *os.Process) (status unix.WaitStatus, alone bool, err error) {
	ended := make(chan struct{})
	var left atomic.Bool
	go func() {
		os.NewFile(labPipe, "lab").Read(make([]byte, 1)) // until the lab is gone
		select {
		case <-ended:
		default:
			left.Store(true)
			p.Kill()
		}
	}()
	for {
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err == nil && pid == p.Pid && (status.Exited() || status.Signaled()) {
			close(ended)
			return status, left.Load(), nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return status, left.Load(), err
		}
	}
}

// killChildren kills all descendants: the orphans of those killed become our
// children and are met in the next round.
func killChildren() {
	for {
		for _, pid := range children() {
			unix.Kill(pid, unix.SIGKILL)
		}
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return
			}
			if pid <= 0 {
				break
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// children lists our child processes.
func children() (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		// pid (name) state ppid …, and the name may hold anything.
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
