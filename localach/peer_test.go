package localach_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"achbridge/localach"
)

// TestMain lets the test binary play a process of ours that a test starts and kills (children_test.go).
func TestMain(m *testing.M) {
	if verb := os.Getenv("LOCALACH_CHILD"); verb != "" {
		child(verb, os.Args[1:])
		os.Exit(0)
	}
	code := m.Run()
	if dir := peerIn.Load(); dir != nil {
		os.RemoveAll(*dir)
	}
	os.Exit(code)
}

// peerBinary compiles the C peer, once per run, if any test asks for it.
var peerBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "localach-peer-")
	if err != nil {
		return "", err
	}
	peerIn.Store(&dir)
	return program(dir, "peer", peerSources()...)
})

// peerIn is the directory that peerBinary made; TestMain removes it.
var peerIn atomic.Pointer[string]

// program compiles a C program of this machine into dir, or takes it from $LOCALACH_PROGRAMS: for a system without a compiler.
func program(dir, name string, sources ...string) (string, error) {
	if made := os.Getenv("LOCALACH_PROGRAMS"); made != "" {
		return filepath.Join(made, name), nil
	}
	bin := filepath.Join(dir, name)
	return bin, compile("cc", bin, sources...)
}

// compile fails with the compiler's own words, or with exec.ErrNotFound.
func compile(cc, out string, args ...string) error {
	if _, err := exec.LookPath(cc); err != nil {
		return err
	}
	text, err := exec.Command(cc, append([]string{"-O2", "-Wall", "-pthread", "-o", out}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w\n%s", cc, args, err, text)
	}
	return nil
}

// missing skips the test for want of a tool, or fails it where nothing may be skipped.
func missing(t testing.TB, what, cure string) {
	t.Helper()
	if os.Getenv("ACHBRIDGE_NO_SKIP") == "1" {
		t.Fatalf("%s is missing: %s", what, cure)
	}
	t.Skipf("%s is missing: %s", what, cure)
}

// long picks the number for a stress run (ACHBRIDGE_LONG=1), or the one for every day.
func long(stress, normal int) int {
	if os.Getenv("ACHBRIDGE_LONG") == "1" {
		return stress
	}
	return normal
}

// privateDir is a directory in shared memory that no other program looks into.
func privateDir(t testing.TB) localach.Dir {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "localach-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return localach.Dir(dir)
}

func pathOf(d localach.Dir, name string) string { return filepath.Join(string(d), "achshm-"+name) }

func createIn(t testing.TB, d localach.Dir, name string, count, size int) *localach.Channel {
	t.Helper()
	c, err := d.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: count, FrameSize: size}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// process is a running peer, in C or our own.
type process struct {
	t   testing.TB
	cmd *exec.Cmd
	out *bufio.Reader
}

// startPeer runs the C peer on a channel and returns once it is at work.
func startPeer(t testing.TB, path string, args ...string) *process {
	t.Helper()
	bin, err := peerBinary()
	needCompiler(t, err)
	return start(t, exec.Command(bin, append([]string{path}, args...)...))
}

// needCompiler ends the test when a program could not be made.
func needCompiler(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, exec.ErrNotFound) {
		missing(t, "a C compiler", "apt-get install gcc libc6-dev")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func start(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, out: bufio.NewReader(out)}
	t.Cleanup(p.kill)
	return p
}

// ready waits until the peer is at work.
func (p *process) ready() *process {
	p.t.Helper()
	if line, err := p.out.ReadString('\n'); line != "ready\n" {
		p.t.Fatalf("%v: got %q (%v), want ready", p.cmd.Args, line, err)
	}
	return p
}

// result waits for the peer's end and returns the figures of its last line.
func (p *process) result() map[string]float64 {
	p.t.Helper()
	text, _ := io.ReadAll(p.out)
	err := p.cmd.Wait()
	figures := map[string]float64{}
	for _, field := range strings.Fields(string(text)) {
		if key, value, ok := strings.Cut(field, "="); ok {
			figures[key], _ = strconv.ParseFloat(value, 64)
		}
	}
	if err != nil {
		p.t.Errorf("%v: %v: %s", p.cmd.Args[1:], err, text)
	}
	return figures
}

// stop asks the peer to end and returns its figures.
func (p *process) stop() map[string]float64 {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	return p.result()
}

// exited says whether the peer has ended, without waiting for it.
func (p *process) exited() bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	return err != nil || strings.Contains(string(state), ") Z ")
}

// wait lets the peer end in its own way, which may be by a signal.
func (p *process) wait() { _ = p.cmd.Wait() }

// kill ends it without a chance to clean up. Killing what has ended is harmless.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// runPeer runs the C peer to its end.
func runPeer(t testing.TB, path string, args ...string) map[string]float64 {
	t.Helper()
	return startPeer(t, path, args...).result()
}

// within fails the test when do has not returned in limit: a hang is a failure, not a timeout of the whole run.
func within(t testing.TB, limit time.Duration, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s: still not back after %v", what, limit)
	}
}

// eventually waits for a condition that another process or goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}
