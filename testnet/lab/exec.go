package main

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"achbridge/testnet/hosts"
)

func execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec HOST CMD…",
		Short: "Run a command on a host",
		Long: `Exec runs CMD on a host with this standard input, output, environment and
working directory. Signals are passed on to CMD, and its exit status comes back
(128+N for signal N, 127 not found). When lab exec is killed, or asked to end by a
signal, all that CMD has started ends too.`,
		Example: "  lab exec robot ip addr\n  lab exec pc sh -c 'ls /dev/shm' ",
		Args:    atLeast(2, "HOST CMD…"),
		RunE:    func(cmd *cobra.Command, args []string) error { return execOn(args[0], args[1:]) },
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func execOn(host string, command []string) error {
	r, err := ask(request{Command: "exec", Target: host})
	if err != nil {
		return err
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return notStarted(command[0], err)
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{execName, path}, command...)}
	if cmd.Dir, err = os.Getwd(); err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ours.Close()
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Env = promptOf(os.Environ(), "lab "+host)
	ownGroup := !atTerminal()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: ownGroup}

	// From here on this thread is in the host's namespaces.
	runtime.LockOSThread()
	if err := hosts.Enter(r.PID, cmd.Dir); err != nil {
		return err
	}
	signals := catchSignals()
	if err := cmd.Start(); err != nil {
		return notStarted(command[0], err)
	}
	theirs.Close()
	defer passSignals(signals, ownGroup, func(s syscall.Signal) { cmd.Process.Signal(s) })()
	err = cmd.Wait()
	if cmd.ProcessState == nil {
		return err
	}
	return exitStatus(unix.WaitStatus(cmd.ProcessState.Sys().(syscall.WaitStatus)))
}

// execName is the name of the keeper, a process on the host between lab exec and CMD. Processes that
// CMD leaves running become its children, and it reads the end of a pipe when lab exec dies.
const execName = "achbridge-lab-exec"

// execMain runs the keeper in the process that execOn has started.
func execMain() {
	if os.Args[0] != execName {
		return
	}
	var status statusError
	if errors.As(keepCommand(os.Args[1], os.Args[2:]), &status) {
		os.Exit(int(status))
	}
	os.Exit(0)
}

// keepCommand runs CMD. Processes that CMD leaves running continue after its end, unless lab exec was
// asked to end.
func keepCommand(path string, command []string) error {
	runtime.LockOSThread() // CMD is killed when the thread that started it ends
	syscall.CloseOnExec(labPipe)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return notStarted(command[0], err)
	}
	ownGroup := !atTerminal()
	cmd := &exec.Cmd{Path: path, Args: command, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: ownGroup}
	signals := catchSignals()
	if err := cmd.Start(); err != nil {
		return notStarted(command[0], errors.Unwrap(err))
	}
	var asked atomic.Bool
	defer passSignals(signals, ownGroup, func(s syscall.Signal) {
		if asksToEnd(s) {
			asked.Store(true)
		}
		if ownGroup && fromKeyboard(s) {
			unix.Kill(-cmd.Process.Pid, s)
			return
		}
		cmd.Process.Signal(s)
	})()
	status, alone, err := reap(cmd.Process)
	if err != nil {
		return err
	}
	if alone || asked.Load() {
		killChildren()
	}
	return exitStatus(status)
}
