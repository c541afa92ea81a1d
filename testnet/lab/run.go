package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"achbridge/testnet/hosts"
)

const socketEnv = "ACHBRIDGE_LAB"

func runCommand() *cobra.Command {
	var c hosts.Config
	cmd := &cobra.Command{
		Use:   "run --hosts A,B… [--link KEY=VALUE,…] [--seed N] -- SCRIPT ARGS…",
		Short: "Start hosts, run SCRIPT beside them, end them",
		Long: `Run starts the hosts, then SCRIPT in the network and the files of this machine,
with the command lab on its PATH. It ends with SCRIPT's exit status and kills
what SCRIPT left running, on the hosts and here. Signals are passed on to SCRIPT;
a second one that asks to end kills it.

--link holds for what each host sends: ` + linkKeys,
		Example: `  lab run --hosts robot,pc --link delay=10ms,rate=1mbit,queue=64KiB,loss=1%,burst=3 -- ./script.sh 10s`,
		Args:    atLeast(1, "--hosts A,B… -- SCRIPT ARGS…"),
		RunE:    func(cmd *cobra.Command, args []string) error { return run(c, args) },
	}
	cmd.Flags().StringSliceVar(&c.Hosts, "hosts", nil, "names of the hosts, such as robot,pc")
	cmd.Flags().StringVar(&c.Link, "link", "", "what every host's link is like; the default is perfect")
	cmd.Flags().Uint64Var(&c.Seed, "seed", 1, "of everything random on the links")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

const linkKeys = `
  delay=10ms   one way             jitter=2ms   added at most; keeps the order
  rate=1mbit   bits per second     queue=64KiB  may wait behind the packet being sent
  loss=1%      in the long run     burst=3      mean number lost in a row
  dup=1%       arrive twice        reorder=1%   are overtaken by later ones
  mtu=1280     larger ones vanish
  stall=5ms/25ms         stands still 5 ms of every 25 ms
  fade=20s/10s/12kbit    of every 20 s the last 10 carry 12 kbit/s
  trace=FILE,from=10s    as recorded: a line for each packet that may pass, its time in
                         ms; plain or gzip; FILE.up sends, FILE.down is the way back
  wifi=good,air=hall     a station on the air that all with this name share; or busy, edge
  cut          nothing passes      up           the end of a cut
"none" or 0 takes a limit away.`

func run(c hosts.Config, script []string) error {
	endWithGoRun()
	lab, err := hosts.Start(c)
	if err != nil {
		// The caller can fix all problems that keep a lab from starting.
		return usageError{err}
	}
	defer lab.Close()
	control, err := listen(lab)
	if err != nil {
		return err
	}
	defer control.close()

	guard, err := startGuard(control.name, script)
	if err != nil {
		return err
	}
	return guard.wait()
}

// endWithGoRun makes the kernel kill this process when `go run` is killed, which does
// not signal its child. The guard then cleans up.
func endWithGoRun() {
	parent := fmt.Sprintf("/proc/%d/exe", os.Getppid())
	if exe, err := os.Readlink(parent); err == nil && filepath.Base(exe) == "go" {
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	}
}

// catchSignals catches signals that ask this process to end. Call it before starting the
// process to which they are passed: otherwise a signal in between would end only this
// process.
func catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT)
	return signals
}

// passSignals calls pass with the caught signals until stop is called. At a terminal,
// Ctrl-C reaches all processes of this process group, and must not be passed to them a
// second time. ownGroup reports that the receiver has another process group.
func passSignals(signals chan os.Signal, ownGroup bool, pass func(syscall.Signal)) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if sig := s.(syscall.Signal); ownGroup || !fromKeyboard(sig) {
					pass(sig)
				}
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}

func asksToEnd(s syscall.Signal) bool {
	return s == syscall.SIGHUP || s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGTERM
}

func fromKeyboard(s syscall.Signal) bool { return s == syscall.SIGINT || s == syscall.SIGQUIT }

// promptOf adds a variable to env that makes bash begin its prompt with where. It takes
// effect after bash's startup files, which set PS1.
func promptOf(env []string, where string) []string {
	return append(env, `PROMPT_COMMAND=PS1="(`+where+`) ${PS1#\(lab*\) }"`)
}

// atTerminal reports whether standard input is a terminal, whose Ctrl-C reaches all
// processes of this process group.
func atTerminal() bool {
	_, err := unix.IoctlGetTermios(0, unix.TCGETS)
	return err == nil
}

// exitStatus returns the exit status of a process as a shell does: its status, or 128
// plus the signal.
func exitStatus(s unix.WaitStatus) error {
	switch {
	case s.Signaled():
		return statusError(128 + int(s.Signal()))
	case s.ExitStatus() != 0:
		return statusError(s.ExitStatus())
	}
	return nil
}

// notStarted returns the exit status of shells: 127 if the program was not found, else 126.
func notStarted(name string, err error) statusError {
	var cause *exec.Error
	if errors.As(err, &cause) {
		err = cause.Err // omit the name, which the message already has
	}
	status := statusError(126)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		status = 127
	}
	fmt.Fprintf(os.Stderr, "lab: %s: %v\n", name, err)
	return status
}
