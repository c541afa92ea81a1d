// Package packaging_test compiles and runs the examples that read NAME.meta.
package packaging_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/status"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

func monotonic(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// readerInC is the reader fresh.c, see compiledReader.
func readerInC(t *testing.T) (run func(limit string, frames ...status.Meta) (string, int)) {
	t.Helper()
	reader := compiledReader(t, "fresh")
	return func(limit string, frames ...status.Meta) (string, int) { return reader([]string{limit}, frames...) }
}

// compiledReader compiles a reader with the command in its comment, in a directory with only the files of the package.
// The returned function runs the reader on frames.
func compiledReader(t *testing.T, name string) (run func(args []string, frames ...status.Meta) (string, int)) {
	t.Helper()
	cc := need.Program(t, "cc", "gcc, with libc6-dev")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("examples")); err != nil {
		t.Fatal(err)
	}
	compile := exec.Command(cc, "-Wall", "-Werror", "-o", name, name+".c")
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return func(args []string, frames ...status.Meta) (string, int) {
		var input []byte
		for _, m := range frames {
			input = m.Append(input)
		}
		cmd := exec.Command(filepath.Join(dir, name), args...)
		cmd.Stdin = bytes.NewReader(input)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
}

func TestCReaderCountsMissedFrames(t *testing.T) {
	run := readerInC(t)
	frames := []status.Meta{{Link: status.MetaUp, Epoch: 9, Seq: 2, MirrorSeq: 1}}
	for _, c := range []struct {
		what string
		meta status.Meta
		want string
	}{
		{"all came", status.Meta{Epoch: 9, Seq: 3, MirrorSeq: 2}, "; 0 of the last 1 frames left out\n"},
		{"two did not", status.Meta{Epoch: 9, Seq: 7, MirrorSeq: 4}, "; 2 of the last 5 frames left out\n"},
		{"the safe frame beside them", status.Meta{Epoch: 9, Seq: 7, MirrorSeq: 7}, "; 0 of the last 5 frames left out\n"},
		{"the mirror's file was made anew", status.Meta{Epoch: 9, Seq: 8, MirrorSeq: 0}, "link down: old\n"},
		{"the channel was made again", status.Meta{Epoch: 8, Seq: 9, MirrorSeq: 9}, "link down: old\n"},
	} {
		frames = append(frames, c.meta)
		if out, _ := run("500", frames...); !strings.HasSuffix(out, c.want) {
			t.Errorf("%s: got %q, want %q", c.what, out, c.want)
		}
	}
}

func TestCReaderRefusesOldData(t *testing.T) {
	run := readerInC(t)
	for _, c := range []struct {
		what, limit string
		meta        status.Meta
		want        string
		exit        int
	}{
		{"a fresh frame", "3600000", status.Meta{Link: status.MetaUp, Seq: 7, Captured: monotonic(t)}, "link up: fresh", 0},
		{"an old one", "500", status.Meta{Link: status.MetaSilent, Seq: 7, Captured: monotonic(t) - time.Second}, "link silent: old", 4},
		{"one that may be old", "500", status.Meta{Link: status.MetaUp, Seq: 7, Captured: monotonic(t), Uncertainty: time.Second}, "link up: old", 4},
		{"one of unknown age", "500", status.Meta{Link: status.MetaDown, Seq: 7}, "of unknown age, link down: old", 4},
		{"a stale mirror", "3600000", status.Meta{Link: status.MetaUp, Seq: 7, Captured: monotonic(t), Stale: true}, "link up: old", 4},
	} {
		out, exit := run(c.limit, c.meta)
		if exit != c.exit || !strings.HasPrefix(out, "frame 7, ") || !strings.Contains(out, c.want) {
			t.Errorf("%s: got exit %d and %q, want %d and %q", c.what, exit, out, c.exit, c.want)
		}
	}
}

func TestCReaderFailsWithoutFrames(t *testing.T) {
	run := readerInC(t)
	if out, exit := run("500"); out != "fresh: no frame\n" || exit != 1 {
		t.Errorf("nothing: got exit %d and %q, want 1", exit, out)
	}
}

func TestCReaderNamesOriginsOfMergedFrames(t *testing.T) {
	run := compiledReader(t, "origins")
	long := strings.Repeat("h", 63)
	out, exit := run(nil, status.Meta{Origin: "robot1"}, status.Meta{Origin: "robot1", Seq: 5, MirrorSeq: 1}, status.Meta{Origin: long, Seq: 9, MirrorSeq: 2})
	if want := "frame 1: frame 5 of robot1\nframe 2: frame 9 of " + long + "\n"; out != want || exit != 0 {
		t.Errorf("got exit %d and %q, want %q", exit, out, want)
	}
	if out, exit := run(nil, status.Meta{Seq: 5, MirrorSeq: 1}, status.Meta{Seq: 6, MirrorSeq: 2}); exit != 1 || !strings.Contains(out, "not the metadata of a merge") {
		t.Errorf("metadata of a mirror: got exit %d and %q, want an error", exit, out)
	}
}

// The reader reports a frame as old after the limit, even if no further frame arrives. On a busy
// machine the test repeats with a longer limit.
func TestPythonReaderReportsSilence(t *testing.T) {
	t.Parallel()
	python := need.Program(t, "python3", "python3")
	for limit := time.Second; ; limit *= 4 {
		err := followsWithin(t, python, limit)
		if err == nil {
			return
		}
		if limit > await.Limit {
			t.Fatal(err)
		}
	}
}

// followsWithin runs the reader and puts each frame as soon as the reader reports the previous one
// as old.
func followsWithin(t *testing.T, python string, limit time.Duration) (err error) {
	t.Helper()
	in, frames := io.Pipe()
	cmd := exec.Command(python, "examples/fresh.py", fmt.Sprint(limit.Milliseconds()))
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
		if err == nil && (!lines.Scan() || !strings.HasPrefix(lines.Text(), want)) {
			err = fmt.Errorf("with a limit of %v: got %q, want %q", limit, lines.Text(), want)
		}
	}
	put := func(m status.Meta) {
		if _, failed := frames.Write(m.Append(nil)); err == nil {
			err = failed
		}
	}
	put(status.Meta{Link: status.MetaUp, Seq: 1 << 40})
	says("old: frame 1099511627776, of unknown age, link up")
	begin := monotonic(t)
	put(status.Meta{Link: status.MetaUp, Seq: 2, Captured: begin})
	says("fresh: frame 2, ")
	says("old: frame 2, ")
	if after := monotonic(t) - begin; err == nil && after < limit {
		t.Errorf("old after %v, want at least %v", after, limit)
	}
	put(status.Meta{Link: status.MetaUp, Seq: 10, MirrorSeq: 7, Captured: monotonic(t)})
	says("fresh: frame 10, ")
	put(status.Meta{Link: status.MetaUp, Seq: 20, MirrorSeq: 9}) // 2 of 10 frames were put
	says("old: frame 20, of unknown age, link up, 9 left out")
	put(status.Meta{Link: status.MetaUp, Epoch: 1, Seq: 5, MirrorSeq: 10, Captured: monotonic(t)}) // the channel was replaced
	says("fresh: frame 5, ")
	put(status.Meta{Link: status.MetaUp, Epoch: 1, Seq: 7, MirrorSeq: 11}) // one frame was not put
	says("old: frame 7, of unknown age, link up, 10 left out")
	frames.Close()
	return errors.Join(err, cmd.Wait())
}
