package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"achbridge/localach"
)

func TestFramesCarryTheirSequenceAndTime(t *testing.T) {
	dir := privateDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	opts := options{dir: dir, channels: []stream{{Name: "imu", Rate: 500, Size: 64}}}
	feed, err := opts.channels[0].open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.remove(slog.New(slog.DiscardHandler))
	go func() { done <- feed.run(ctx, slog.New(slog.DiscardHandler)) }()

	reader, frame := feed.channel.Reader(), make([]byte, 64)
	lastTime := uint64(0)
	for range 20 {
		n, err := reader.Next(frame, 5*time.Second)
		if err != nil || n != 64 {
			t.Fatalf("next: got %d bytes, %v, want 64", n, err)
		}
		seq, at := binary.LittleEndian.Uint64(frame), binary.LittleEndian.Uint64(frame[8:])
		if seq != reader.Seq() {
			t.Errorf("stamp: got sequence %d, want Ach's %d", seq, reader.Seq())
		}
		if at <= lastTime {
			t.Errorf("stamp: got time %d after %d, want a later one", at, lastTime)
		}
		lastTime = at
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: got %v, want nil", err)
	}
}

func TestPublisherRemovesItsChannels(t *testing.T) {
	dir := privateDir(t)
	opts := options{dir: dir, channels: []stream{{Name: "imu", Rate: 1000, Size: 64}}, limit: 50 * time.Millisecond}
	if err := opts.run(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Open("imu"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open: got %v, want %v", err, fs.ErrNotExist)
	}
}

func TestPublisherTellsHowThePutsWent(t *testing.T) {
	var log strings.Builder
	opts := options{dir: privateDir(t), channels: []stream{{Name: "imu", Rate: 1000, Size: 64}}, limit: 50 * time.Millisecond}
	if err := opts.run(t.Context(), slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`msg=published channel=imu count=[1-9]\d* failed=0 worst_put=\d`); !want.MatchString(log.String()) {
		t.Errorf("log: got %s, want a line that matches %s", &log, want)
	}
}

func TestPublisherToldToRestLeavesItsChannels(t *testing.T) {
	dir := privateDir(t)
	var log strings.Builder
	opts := options{dir: dir, channels: []stream{{Name: "imu", Rate: 1000, Size: 64}},
		child: []string{"sh", "-c", `kill -USR1 "$PPID"; sleep 0.1; cp "$0" "$0.rests"; sleep 0.05; cmp "$0" "$0.rests"`, filepath.Join(string(dir), "achshm-imu")}}
	if err := opts.run(t.Context(), slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Errorf("run: got %v, want that the channel is there and does not change", err)
	}
	if n := strings.Count(log.String(), "msg=published"); n != 1 {
		t.Errorf("log: told %d times how the puts went, want once:\n%s", n, &log)
	}
}

func TestChildEndsThePublisher(t *testing.T) {
	opts := options{dir: privateDir(t), channels: []stream{{Name: "imu", Rate: 1000, Size: 64}}, child: []string{"sh", "-c", "exit 7"}}
	err := opts.run(t.Context(), slog.New(slog.DiscardHandler))
	child, ok := errors.AsType[*exec.ExitError](err)
	if !ok || child.ExitCode() != 7 {
		t.Errorf("run: got %v, want the child's exit code 7", err)
	}
}

func TestSignalEndsTheChild(t *testing.T) {
	dir := privateDir(t)
	ended := filepath.Join(string(dir), "ended")
	opts := options{
		dir: dir, channels: []stream{{Name: "imu", Rate: 1000, Size: 64}}, limit: 200 * time.Millisecond,
		child: []string{"sh", "-c", `trap 'echo yes >"$0"; exit 0' TERM; while :; do sleep 0.01; done`, ended},
	}
	if err := opts.run(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("run: got %v, want nil", err)
	}
	if got, err := os.ReadFile(ended); string(got) != "yes\n" {
		t.Errorf("child: left %q (%v), want that it had SIGTERM and ended itself", got, err)
	}
}

func TestChannelThatIsTooSmallIsRefused(t *testing.T) {
	dir := privateDir(t)
	small, err := dir.Create("imu", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	_, err = stream{Name: "imu", Rate: 1, Size: 4096}.open(dir)
	if err == nil || !strings.Contains(err.Error(), "too small for 4096") {
		t.Errorf("open: got %v, want that it is too small", err)
	}
}

func TestCommandLineIsChecked(t *testing.T) {
	for args, want := range map[string]string{
		"--channel imu":              "want NAME:HZ:BYTES",
		"--channel imu:0:64":         `rate "0"`,
		"--channel imu:NaN:64":       `rate "NaN"`,
		"--channel imu:100000:64":    "at most 10000",
		"--channel imu:1:8":          `size "8": want 16`,
		"--channel a/b:1:64":         "a/b",
		"--for 10":                   `invalid value "10"`,
		"--channel imu:1:8589934592": `size "8589934592"`,
	} {
		var complaints strings.Builder
		if _, err := parseOptions(strings.Fields(args), &complaints); err == nil || !strings.Contains(complaints.String(), want) {
			t.Errorf("%s: got %v and %q, want %q in it", args, err, &complaints, want)
		}
	}
	opts, err := parseOptions([]string{"--channel", "arm:2.5:100", "--", "achbridge", "run", "--name", "robot"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(opts.child, " "); got != "achbridge run --name robot" {
		t.Errorf("child: got %q", got)
	}
	if want := (stream{Name: "arm", Rate: 2.5, Size: 100}); len(opts.channels) != 1 || opts.channels[0] != want {
		t.Errorf("channels: got %v, want %v", opts.channels, want)
	}
}

// privateDir is on shared memory and met by no other program.
func privateDir(t *testing.T) localach.Dir {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "publisher-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return localach.Dir(dir)
}
