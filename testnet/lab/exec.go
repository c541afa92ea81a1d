package main

import (
	"os"
	"os/exec"
	"runtime"
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
(128+N for signal N, 127 not found). When lab exec is killed, CMD is too.`,
		Example: "  lab exec robot ip addr\n  lab exec pc sh -c 'ls /dev/shm' ",
		Args:    atLeast(2, "HOST CMD…"),
		RunE:    func(cmd *cobra.Command, args []string) error { return execOn(args[0], args[1:]) },
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func execOn(host string, command []string) error {
	r, err := ask(request{Verb: "exec", Target: host})
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
	ownGroup := !atTerminal()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: ownGroup}

	// This thread is the host's from here on; CMD dies with it.
	runtime.LockOSThread()
	if err := hosts.Enter(r.PID, cmd.Dir); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return notStarted(command[0], err)
	}
	defer passSignals(ownGroup, func(s syscall.Signal) {
		if ownGroup && fromKeyboard(s) {
			unix.Kill(-cmd.Process.Pid, s)
			return
		}
		cmd.Process.Signal(s)
	})()
	err = cmd.Wait()
	if cmd.ProcessState == nil {
		return err
	}
	return exitStatus(unix.WaitStatus(cmd.ProcessState.Sys().(syscall.WaitStatus)))
}

// execName marks the process that becomes CMD. It asks to die with us before it
// does: os/exec cannot, since it looks for its parent by a process id that means
// nothing in the host's PID namespace.
const execName = "achbridge-lab-exec"

// execMain becomes CMD in the process that execOn made.
func execMain() {
	if os.Args[0] != execName {
		return
	}
	runtime.LockOSThread()
	err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[2:], os.Environ())
	}
	os.Exit(int(notStarted(os.Args[2], err)))
}
