// Package packaging_test compiles and runs the examples that read NAME.meta.
package packaging_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge"
	"achbridge/localach"
)

// companion is a channel m.meta in a directory of its own.
func companion(t *testing.T) (dir string, put func(bridge.Meta)) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "meta-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ch, err := localach.Dir(dir).Create("m.meta", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: bridge.MetaSize}.Grow()})
	if err != nil {
		t.Fatal(err)
	}
	w := ch.Writer()
	t.Cleanup(func() { w.Close(); ch.Close() })
	return dir, func(m bridge.Meta) {
		if _, err := w.Put(m.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
}

func monotonic(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

func TestReaderInCRefusesOldData(t *testing.T) {
	cc := tool(t, "cc", "apt-get install gcc libc6-dev")
	program := filepath.Join(t.TempDir(), "fresh")
	peer := "../localach/testdata/peer"
	if out, err := exec.Command(cc, "-O2", "-Wall", "-Werror", "-pthread", "-o", program, "-I", "testdata", "-I", peer, "examples/fresh.c", peer+"/channel.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir, put := companion(t)
	run := func(limit string) (string, int) {
		cmd := exec.Command(program, "m", limit)
		cmd.Env = []string{"ACHBRIDGE_SHM=" + dir}
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		what, limit string
		meta        bridge.Meta
		want        string
		exit        int
	}{
		{"a fresh frame", "30000", bridge.Meta{Link: bridge.MetaUp, Seq: 7, Captured: monotonic(t)}, "link up: fresh", 0},
		{"an old one", "500", bridge.Meta{Link: bridge.MetaSilent, Seq: 7, Captured: monotonic(t) - time.Second}, "link silent: old", 4},
		{"one that may be old", "500", bridge.Meta{Link: bridge.MetaUp, Seq: 7, Captured: monotonic(t), Uncertainty: time.Second}, "link up: old", 4},
		{"one of unknown age", "500", bridge.Meta{Link: bridge.MetaDown, Seq: 7}, "of unknown age, link down: old", 4},
		{"a stale mirror", "30000", bridge.Meta{Link: bridge.MetaUp, Seq: 7, Captured: monotonic(t), Stale: true}, "link up: old", 4},
	} {
		put(c.meta)
		out, exit := run(c.limit)
		if exit != c.exit || !strings.Contains(out, "m: frame 7, ") || !strings.Contains(out, c.want) {
			t.Errorf("%s: got exit %d and %q, want %d and %q", c.what, exit, out, c.exit, c.want)
		}
	}
}

func TestReaderInPythonNoticesThatNothingArrives(t *testing.T) {
	python := tool(t, "python3", "apt-get install python3")
	in, frames := io.Pipe()
	cmd := exec.Command(python, "examples/fresh.py", "1000")
	cmd.Stdin, cmd.Stderr = in, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	says := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), want) {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
	}
	put := func(m bridge.Meta) {
		t.Helper()
		if _, err := frames.Write(m.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	put(bridge.Meta{Link: bridge.MetaUp, Seq: 1 << 40})
	says("old: frame 1099511627776, of unknown age, link up")
	begin := monotonic(t)
	put(bridge.Meta{Link: bridge.MetaUp, Seq: 2, Captured: begin})
	says("fresh: frame 2, ")
	says("old: frame 2, ")
	if after := monotonic(t) - begin; after < time.Second {
		t.Errorf("old after %v already", after)
	}
	frames.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func tool(t *testing.T, name, cure string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("ACHBRIDGE_NO_SKIP") == "1" {
		t.Fatalf("no %s: %s", name, cure)
	}
	t.Skipf("no %s: %s", name, cure)
	return ""
}
