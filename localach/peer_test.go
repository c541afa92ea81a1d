package localach_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// TestMain also makes the test binary a process that tests start and kill (children_test.go).
func TestMain(m *testing.M) {
	if op := os.Getenv("LOCALACH_CHILD"); op != "" {
		child(op, os.Args[1:])
		os.Exit(0)
	}
	os.Exit(await.Main(m))
}

// built returns the path of a C program. It compiles the program once, and keeps it in the user's cache for later runs with the
// same sources, arguments and compiler. On a system without a compiler $LOCALACH_PROGRAMS is the directory of the programs.
func built(t testing.TB, cc, name string, args ...string) string {
	t.Helper()
	if made := os.Getenv("LOCALACH_PROGRAMS"); made != "" {
		return filepath.Join(made, name)
	}
	compiler, err := exec.LookPath(cc)
	if err != nil {
		need.Missing(t, cc+": not installed; it is in Debian's packages gcc and libc6-dev, or gcc-aarch64-linux-gnu and libc6-dev-arm64-cross")
	}
	info, err := os.Stat(compiler)
	if err != nil {
		t.Fatal(err)
	}
	key := sha256.New()
	fmt.Fprintln(key, compiler, info.ModTime(), args)
	for _, pattern := range []string{"*.[ch]", "testdata/*.c", "testdata/peer/*"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(key, "%s %d\n%s", file, len(text), text)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "achbridge-tests", "localach")
	bin := filepath.Join(dir, fmt.Sprintf("%s-%x", name, key.Sum(nil)[:8]))
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	draft := filepath.Join(t.TempDir(), name)
	compile(t, cc, draft, args...)
	text, err := os.ReadFile(draft)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		draft = fmt.Sprintf("%s.%d", bin, os.Getpid()) // another run may compile the same program
		err = os.WriteFile(draft, text, 0o755)
	}
	if err == nil {
		err = os.Rename(draft, bin)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// compile runs the compiler. On failure it fails the test with the compiler's output.
func compile(t testing.TB, cc, out string, args ...string) {
	t.Helper()
	text, err := exec.Command(cc, append([]string{"-O2", "-Wall", "-pthread", "-o", out}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", cc, args, err, text)
	}
}

// privateDir returns a directory in shared memory that no other program uses.
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

// process is a running peer, in C or Go.
type process struct {
	t   testing.TB
	cmd *exec.Cmd
	out *bufio.Reader
}

// startPeer starts the C peer on a channel and waits until it works.
func startPeer(t testing.TB, path string, args ...string) *process {
	t.Helper()
	return start(t, exec.Command(built(t, "cc", "peer", peerSources...), append([]string{path}, args...)...))
}

var peerSources = []string{"testdata/peer/channel.c", "testdata/peer/main.c"}

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

// ready waits until the peer works.
func (p *process) ready() *process {
	p.t.Helper()
	if line, err := p.out.ReadString('\n'); line != "ready\n" {
		p.t.Fatalf("%v: got %q (%v), want ready", p.cmd.Args, line, err)
	}
	return p
}

// result waits for the end of the peer and returns the figures of its last line.
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

// exited reports whether the peer has ended. It does not wait.
func (p *process) exited() bool { return p.is("Z") }

// is reports whether the peer is in a state of proc(5): T stopped, Z ended.
func (p *process) is(state string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	return err != nil || strings.Contains(string(text), ") "+state+" ")
}

// wait waits for the end of the peer, which may be by a signal.
func (p *process) wait() { _ = p.cmd.Wait() }

// kill kills the peer, if it has not ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// runPeer runs the C peer and returns its figures.
func runPeer(t testing.TB, path string, args ...string) map[string]float64 {
	t.Helper()
	return startPeer(t, path, args...).result()
}
