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

// guardName is the name of the guard, a process between the lab and its script.
// Processes that the script leaves running become children of the guard
// (PR_SET_CHILD_SUBREAPER). When the lab ends or is killed, the guard reads the end of a
// pipe, kills its children and removes the folder with the command lab.
const guardName = "achbridge-lab-guard"

type guard struct {
	cmd         *exec.Cmd
	pipe        *os.File
	stop        func()
	endRequests int // number of signals that ask to end; only for pass
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
	// Without a terminal, only this process passes signals to the guard, each once.
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

// pass passes a signal to the script. The second signal that asks to end kills the script.
func (g *guard) pass(s syscall.Signal) {
	if asksToEnd(s) {
		if g.endRequests++; g.endRequests > 1 {
			g.pipe.Close()
		}
	}
	g.cmd.Process.Signal(s)
}

// wait waits until all processes of the script have ended, and returns the script's exit status.
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

// guardMain runs the guard in the process that startGuard has started.
func guardMain() {
	if os.Args[0] != guardName {
		return
	}
	// The script is killed when the thread that started it ends.
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
	// The script gets its own process group, unless a terminal's Ctrl-C must reach it.
	ownGroup := !atTerminal()
	cmd := exec.Command(script[0], script[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: ownGroup}
	signals := catchSignals()
	if err := cmd.Start(); err != nil {
		return notStarted(script[0], err)
	}
	group := cmd.Process.Pid // signal the whole group, as a terminal does, since shells wait for their children
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

// labPipe is the descriptor of a pipe that the lab, or lab exec, keeps open until it ends.
const labPipe = 3

// reap waits for the end of a child, and reaps orphans that end before. When the pipe
// ends, reap kills the child and returns alone as true.
func reap(p *os.Process) (status unix.WaitStatus, alone bool, err error) {
	ended := make(chan struct{})
	var left atomic.Bool
	go func() {
		os.NewFile(labPipe, "lab").Read(make([]byte, 1)) // blocks until the lab has ended
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

// killChildren kills all descendants. Orphans of killed processes become children of
// this process and are killed in the next round.
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

// children returns the child processes of this process.
func children() (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has just ended
		}
		// The text is "pid (name) state ppid …". The name may contain any bytes.
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
