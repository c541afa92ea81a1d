package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

// asProgram is the environment variable that makes the test binary the program lab. The
// binary is also lab where it starts itself as a host, a guard or a command.
const asProgram = "LAB_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(await.Main(m))
}

type session struct {
	*exec.Cmd
	out, err bytes.Buffer
	tmp      string
}

// lab returns a session that runs the program with args. All of its processes have s.tmp
// in their environment.
func lab(t *testing.T, args ...string) *session {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx := await.Context(t)
	s := &session{Cmd: exec.CommandContext(ctx, exe, args...), tmp: t.TempDir()}
	s.Cancel = func() error {
		if ctx.Err() == context.DeadlineExceeded {
			t.Errorf("lab %q: not done after %v; running are %q", args, await.Limit, s.left())
		}
		return s.Process.Kill()
	}
	s.Stdout, s.Stderr = &s.out, &s.err
	s.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+s.tmp)
	s.WaitDelay = await.Limit
	return s
}

// needHosts skips the test if this machine cannot emulate hosts.
func needHosts(t *testing.T) {
	t.Helper()
	if err := hosts.Permitted(); err != nil {
		if os.Getenv("ACHBRIDGE_NO_SKIP") == "1" && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// run runs the program and returns its exit status.
func (s *session) run(t *testing.T) int {
	t.Helper()
	err := s.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v; output %s%s", err, &s.out, &s.err)
	}
	return s.ProcessState.ExitCode()
}

// left returns the processes of the session that still run.
func (s *session) left() (processes []string) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		text, _ := os.ReadFile(path)
		if bytes.Contains(text, []byte("TMPDIR="+s.tmp+"\x00")) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			processes = append(processes, filepath.Dir(path)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return processes
}

// wantNothingLeft waits until all processes of the session have ended. Their namespaces,
// mounts and devices then end too.
func (s *session) wantNothingLeft(t *testing.T) {
	t.Helper()
	await.NoError(t, func() error {
		if left := s.left(); len(left) > 0 {
			return fmt.Errorf("processes are left: %q", left)
		}
		return nil
	})
	if entries, _ := os.ReadDir(s.tmp); len(entries) > 0 {
		t.Errorf("got %v left in the temporary folder", entries)
	}
}

// waitFor waits until out, a pipe from the program, contains text.
func waitFor(t *testing.T, out io.Reader, text string) {
	t.Helper()
	var got []byte
	buf := make([]byte, 1000)
	for !bytes.Contains(got, []byte(text)) {
		n, err := out.Read(buf)
		if got = append(got, buf[:n]...); err != nil {
			t.Fatalf("got %q, want %q", got, text)
		}
	}
}

func TestScriptControlsHostsAndLinks(t *testing.T) {
	needHosts(t)
	const script = `
		lab addr robot; lab addr -6 pc
		lab exec robot hostname
		lab exec pc sh -c 'exit 7'; echo status $?
		lab exec pc sh -c 'kill -9 $$'; echo status $?
		lab exec pc no-such-program; echo status $?
		echo words | lab exec robot cat
		lab link loss=5%; lab link robot cut; lab link 'robot>pc' delay=50ms rate=2mbit; lab link
		lab link robot up; lab link | grep '^robot '
		sleep 1000 & lab exec robot sleep 1000 &
		exit $1`
	s := lab(t, "run", "--hosts", "robot,pc", "--link", "delay=10ms", "--", "sh", "-c", script, "script", "42")
	if got := s.run(t); got != 42 {
		t.Errorf("got exit status %d, want the script's, 42; %s", got, &s.err)
	}
	const want = `10.80.76.1
fd00:8076::2
robot
status 7
status 137
status 127
words
LINK SENT LOST OVERFLOW CUT TOO BIG PARAMETERS
robot 0 0 0 0 0 delay=10ms,loss=5%,cut
pc 0 0 0 0 0 delay=10ms,loss=5%
robot>pc 0 0 0 0 0 delay=50ms,rate=2mbit,loss=5%
robot 0 0 0 0 0 delay=10ms,loss=5%
`
	var got strings.Builder
	for line := range strings.Lines(s.out.String()) {
		got.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	if got.String() != want {
		t.Errorf("got %s\nwant %s\nerrors %s", &got, want, &s.err)
	}
	if !strings.Contains(s.err.String(), "no-such-program: executable file not found") {
		t.Errorf("got errors %q, want the program that was not found", &s.err)
	}
	s.wantNothingLeft(t)
}

func TestRadioLinksUseBothDirections(t *testing.T) {
	needHosts(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"Way.up": "10\n20\n", "Way.down": "10\n15\n20\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const script = `
		lab link | awk 'NR > 1 {print $NF}'
		lab link trace=none,wifi=good,air=Hall; lab link pc wifi=edge; lab link | awk 'NR > 1 {print $NF}'`
	s := lab(t, "run", "--hosts", "robot,pc", "--link", "trace="+dir+"/Way.up,from=5ms", "--", "sh", "-c", script)
	want := "trace=DIR/Way.up,from=5ms\ntrace=DIR/Way.down,from=5ms\nwifi=good,air=Hall\nwifi=edge,air=Hall\n"
	if code := s.run(t); code != 0 || strings.ReplaceAll(s.out.String(), dir, "DIR") != want {
		t.Errorf("got status %d, %s\nwant %s\nerrors %s", code, &s.out, want, &s.err)
	}
	s.wantNothingLeft(t)
}

func TestKilledLabLeavesNoProcesses(t *testing.T) {
	needHosts(t)
	const script = `
		setsid sh -c 'trap "" TERM INT HUP; sleep 1000' &
		lab exec robot sh -c 'trap "" TERM INT HUP; setsid sleep 1000 & sleep 1000' &
		lab exec robot sh -c 'until test -e /dev/shm; do :; done'
		echo ready
		sleep 1000`
	for _, sig := range need.LongOr([]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT}, []syscall.Signal{syscall.SIGKILL}) {
		s := lab(t, "run", "--hosts", "robot,pc", "--", "sh", "-c", script)
		s.Stdout = nil
		out, err := s.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, out, "ready")
		if len(s.left()) < 7 {
			t.Errorf("%v: got only %q before it", sig, s.left())
		}
		s.Process.Signal(sig)
		s.Wait()
		s.wantNothingLeft(t)
	}
}

func TestExecPassesSignals(t *testing.T) {
	needHosts(t)
	const script = `
		lab exec robot sh -c 'trap "exit 9" TERM; echo ready >&2; while :; do sleep 0.01; done' 2>$TMPDIR/out &
		until grep -q ready $TMPDIR/out; do sleep 0.01; done
		kill -TERM $!; wait $!; echo status $?
		rm $TMPDIR/out`
	s := lab(t, "run", "--hosts", "robot", "--", "sh", "-c", script)
	if s.run(t); s.out.String() != "status 9\n" {
		t.Errorf("got %q, want status 9; %s", &s.out, &s.err)
	}
	s.wantNothingLeft(t)
}

func TestKilledExecEndsProcessesOfCommand(t *testing.T) {
	needHosts(t)
	for _, sig := range need.LongOr([]string{"KILL", "TERM"}, []string{"KILL"}) {
		script := `
		lab exec robot sh -c 'setsid sleep 1000 & sleep 1000 & echo $$ >/dev/shm/pid; wait' &
		lab exec robot sh -c 'until test -s /dev/shm/pid; do :; done'
		kill -` + sig + ` $!; wait $! 2>/dev/null
		lab exec robot sh -c 'while pgrep sleep || kill -0 $(cat /dev/shm/pid); do :; done >/dev/null 2>&1; echo gone'`
		s := lab(t, "run", "--hosts", "robot", "--", "sh", "-c", script)
		if s.run(t); s.out.String() != "gone\n" {
			t.Errorf("%s: got %q, want gone; %s", sig, &s.out, &s.err)
		}
	}
}

func TestBackgroundProcessesOutliveExec(t *testing.T) {
	needHosts(t)
	s := lab(t, "run", "--hosts", "robot", "--", "sh", "-c", `lab exec robot sh -c 'sleep 1000 >/dev/null & echo $! >/dev/shm/pid'; lab exec robot sh -c 'kill -0 $(cat /dev/shm/pid)'`)
	if got := s.run(t); got != 0 {
		t.Errorf("got status %d, want 0; %s", got, &s.err)
	}
	s.wantNothingLeft(t)
}

func TestPromptShowsTheLabAndTheHost(t *testing.T) {
	needHosts(t)
	need.Program(t, "script", "bsdutils")
	s := lab(t, "run", "--hosts", "robot", "--", "script", "-qec", "bash -i", "/dev/null")
	s.Env = append(s.Env, "HOME="+t.TempDir(), "TERM=dumb")
	s.Stdin = strings.NewReader("lab exec robot bash -i\nexit\nexit\n")
	s.run(t)
	if got := s.out.String(); !strings.Contains(got, "(lab) ") || !strings.Contains(got, "(lab robot) ") || strings.Contains(got, "(lab robot) (lab)") {
		t.Errorf("got %q, want the prompts (lab) and (lab robot)", got)
	}
	s.wantNothingLeft(t)
}

func TestExecReportsMissingWorkingDirectory(t *testing.T) {
	needHosts(t)
	s := lab(t, "run", "--hosts", "robot", "--", "sh", "-c", "lab exec robot true")
	dir, err := os.MkdirTemp("/dev/shm", "lab-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.Dir = dir
	if got := s.run(t); got != 1 || !strings.Contains(s.err.String(), "the host has no such working directory") || !strings.Contains(s.err.String(), dir) {
		t.Errorf("got status %d, %q, want 1 and the directory", got, &s.err)
	}
}

func TestUsageErrorsExitWithTwo(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"run --hosts robot", []string{"right is lab run --hosts A,B… -- SCRIPT ARGS…"}},
		{"run --host robot -- true", []string{"unknown flag: --host", "`lab run --help`"}},
		{"run --hosts robot,robot --link rate=fast -- true", []string{`"robot" is named twice`, `lab: rate: "fast" is not a rate`}},
		{"run -- true", []string{"hosts: 0 named", "such as robot,pc"}},
		{"exec robot", []string{"right is lab exec HOST CMD…"}},
		{"exec robot true", []string{"inside a lab only", "lab run --hosts"}},
		{"link loss=5", []string{`loss: "5" is not a share; right is 0% to 100%`}},
		{"link robot", []string{"what to change is missing"}},
		{"start", []string{`unknown command "start"`}},
	} {
		s := lab(t, strings.Fields(c.args)...)
		if got := s.run(t); got != 2 {
			t.Errorf("lab %s: got status %d, want 2", c.args, got)
		}
		for _, want := range c.want {
			if !strings.Contains(s.err.String(), want) {
				t.Errorf("lab %s: got %q, want it to say %q", c.args, &s.err, want)
			}
		}
	}
}

func TestWithoutRootErrorSuggestsFix(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to give root away it takes root: run it with sudo")
	}
	// A folder and a program that all users can access.
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := lab(t, "run", "--hosts", "robot,pc", "--", "true")
	program, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	s.Path, s.Dir = filepath.Join(dir, "lab"), dir
	if err := os.WriteFile(s.Path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	s.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if got := s.run(t); got != 2 || !strings.Contains(s.err.String(), "run it with sudo") {
		t.Errorf("got status %d, %q, want 2 and what to do", got, &s.err)
	}
}
