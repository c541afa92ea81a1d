package child_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"achbridge/cmd/achbridge/child"
	"achbridge/cmd/achbridge/ui"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// asInit is set in a process that the tests start as PID 1.
const asInit = "ACHBRIDGE_TEST_INIT"

func TestMain(m *testing.M) {
	if script := os.Getenv(asInit); script != "" {
		p := child.Program{Args: []string{"sh", "-c", script}, StopTime: await.Limit, Log: slog.New(slog.DiscardHandler)}
		os.Exit(ui.ExitCode(p.Run(context.Background(), child.Daemon{Serve: untilEnd, Ready: atOnce})))
	}
	os.Exit(await.Main(m))
}

func untilEnd(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func atOnce(context.Context) error { return nil }

// running is a program that runs with a daemon of the test.
type running struct {
	t       *testing.T
	dir     string
	signals chan os.Signal
	fail    chan error // ends the daemon
	done    chan error
}

// run runs a shell script with the directory of the test as $0.
func run(t *testing.T, stopTime time.Duration, script string) *running {
	t.Helper()
	return runProgram(t, stopTime, func(dir string) []string { return []string{"sh", "-c", script, dir} })
}

func runProgram(t *testing.T, stopTime time.Duration, args func(dir string) []string) *running {
	t.Helper()
	r := &running{t: t, dir: t.TempDir(), signals: make(chan os.Signal, 4), fail: make(chan error), done: make(chan error, 1)}
	serve := func(ctx context.Context) error {
		select {
		case err := <-r.fail:
			return err
		case <-ctx.Done():
			return os.WriteFile(filepath.Join(r.dir, "daemon-stopped"), nil, 0o600)
		}
	}
	p := child.Program{Args: args(r.dir), Signals: r.signals, StopTime: stopTime, Log: slog.New(slog.DiscardHandler)}
	go func() { r.done <- p.Run(context.Background(), child.Daemon{Serve: serve, Ready: atOnce}) }()
	return r
}

// exists reports whether the script has made a file.
func (r *running) exists(file string) bool {
	_, err := os.Stat(filepath.Join(r.dir, file))
	return err == nil
}

func (r *running) waitFor(file string) {
	r.t.Helper()
	await.NoError(r.t, func() error {
		if !r.exists(file) {
			return fmt.Errorf("no file %s", file)
		}
		return nil
	})
}

func (r *running) end() error {
	r.t.Helper()
	return await.Receive(r.t, "Run has not returned", r.done)
}

func TestProgramEndsTheDaemonWithItsStatus(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -KILL $$": 137, "kill -SEGV $$": 139} {
		r := run(t, child.StopTime, script)
		if got := ui.ExitCode(r.end()); got != want {
			t.Errorf("%s: got exit code %d, want %d", script, got, want)
		}
		if !r.exists("daemon-stopped") {
			t.Errorf("%s: the daemon still runs", script)
		}
	}
}

func TestSignalsArePassedToTheProgram(t *testing.T) {
	for _, sig := range child.Signals {
		r := run(t, child.StopTime, fmt.Sprintf("trap 'exit 5' %d; touch $0/ready; while :; do sleep 0.01; done", sig))
		r.waitFor("ready")
		r.signals <- sig
		if got := ui.ExitCode(r.end()); got != 5 {
			t.Errorf("%v: got exit code %d, want 5 of the program's handler", sig, got)
		}
	}
}

func TestDaemonOutlivesStoppingProgram(t *testing.T) {
	r := run(t, child.StopTime, "trap 'touch $0/stopping; until [ -e $0/go ]; do sleep 0.01; done; [ ! -e $0/daemon-stopped ]; exit' TERM; touch $0/ready; while :; do sleep 0.01; done")
	r.waitFor("ready")
	r.signals <- syscall.SIGTERM
	r.waitFor("stopping")
	if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.end(); err != nil {
		t.Errorf("got %v, want a daemon that runs until the program has ended", err)
	}
}

func TestFailedDaemonStopsTheProgram(t *testing.T) {
	cause := errors.New("sockets are gone")
	for name, test := range map[string]struct {
		stopTime time.Duration
		script   string
	}{
		"that ends at SIGTERM":     {await.Limit, "trap 'touch $0/terminated; exit' TERM; touch $0/ready; while :; do sleep 0.01; done"},
		"that ignores the SIGTERM": {50 * time.Millisecond, "trap 'touch $0/terminated' TERM; touch $0/ready; while :; do sleep 0.01; done"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, test.stopTime, test.script)
			r.waitFor("ready")
			r.fail <- cause
			if err := r.end(); !errors.Is(err, cause) {
				t.Errorf("got %v, want the daemon's error", err)
			}
			if !r.exists("terminated") {
				t.Error("the program got no SIGTERM")
			}
		})
	}
}

func TestUnstartableProgramHasExitCodeOfShell(t *testing.T) {
	for name, test := range map[string]struct {
		mode os.FileMode
		text string
		want int
	}{
		"missing":        {0, "", 127},
		"not executable": {0o644, "#!/bin/sh\n", 126},
		"no program":     {0o755, "\x00\x01", 126},
	} {
		r := runProgram(t, child.StopTime, func(dir string) []string {
			path := filepath.Join(dir, "program")
			if test.mode != 0 {
				if err := os.WriteFile(path, []byte(test.text), test.mode); err != nil {
					t.Fatal(err)
				}
			}
			return []string{path}
		})
		err := r.end()
		if got := ui.ExitCode(err); got != test.want || !strings.Contains(err.Error(), r.dir) || ui.Fix(err) == "" {
			t.Errorf("%s: got exit code %d, %v, want %d, the program's name and a fix", name, got, err, test.want)
		}
	}
}

func TestSignalBeforeTheProgramStartsEndsTheDaemon(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	p := child.Program{Args: []string{"false"}, Signals: signals, StopTime: await.Limit, Log: slog.New(slog.DiscardHandler)}
	never := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	if got := ui.ExitCode(p.Run(t.Context(), child.Daemon{Serve: untilEnd, Ready: never})); got != 143 {
		t.Errorf("got exit code %d, want 143", got)
	}
}

func TestProgramIsNotStartedUnlessTheDaemonAnswers(t *testing.T) {
	started, cause := filepath.Join(t.TempDir(), "started"), errors.New("no answer")
	p := child.Program{Args: []string{"touch", started}, StopTime: await.Limit, Log: slog.New(slog.DiscardHandler)}
	err := p.Run(t.Context(), child.Daemon{Serve: untilEnd, Ready: func(context.Context) error { return cause }})
	if _, statErr := os.Stat(started); !errors.Is(err, cause) || statErr == nil {
		t.Errorf("got %v and file %v, want the error and no program", err, statErr)
	}
}

// A process whose parent has ended becomes a child of PID 1, which must reap it. The script waits until none is
// a zombie, and returns its own status although other processes ended before it.
func TestOrphansAreReapedAsPID1(t *testing.T) {
	unshare := need.Program(t, "unshare", "util-linux")
	if os.Getuid() != 0 {
		t.Skip("needs root for a PID namespace: sudo go test")
	}
	const orphans = `
for i in 1 2 3; do sh -c 'sleep 0.5 & echo $! >>'$DIR/pids; done
for pid in $(cat $DIR/pids); do
	[ "$(cut -d' ' -f4 /proc/$pid/stat)" = 1 ] || exit 91
done
for pid in $(cat $DIR/pids); do
	n=0
	while [ -e /proc/$pid ]; do n=$((n+1)); [ $n -lt 500 ] || exit 92; sleep 0.01; done
done
exit 42`
	cmd := exec.Command(unshare, "--pid", "--fork", "--mount-proc", os.Args[0])
	cmd.Env = append(os.Environ(), asInit+"="+orphans, "DIR="+t.TempDir())
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != 42 {
		t.Errorf("got exit code %d, want 42 (91: not orphaned, 92: left as a zombie): %s", got, out)
	}
}
