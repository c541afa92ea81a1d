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

	"achbridge/localach"
	"achbridge/testnet/await"
)

func TestFramesHaveSequenceAndTime(t *testing.T) {
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
		n, err := reader.Next(frame, await.Limit)
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

// publishing runs the options until do returns, and returns the log and the error of run.
func publishing(t *testing.T, opts options, do func()) (string, error) {
	t.Helper()
	var log strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- opts.run(ctx, slog.New(slog.NewTextHandler(&log, nil))) }()
	do()
	cancel()
	err := await.Receive(t, "run has not returned", done)
	return log.String(), err
}

// imu returns options for one channel in a private directory. put waits until the channel has frames.
func imu(t *testing.T) (opts options, put func()) {
	opts = options{dir: privateDir(t), channels: []stream{{Name: "imu", Rate: 1000, Size: 64}}}
	return opts, func() {
		t.Helper()
		await.True(t, "nothing is put into imu", func() bool {
			ch, err := opts.dir.Open("imu")
			if err != nil {
				return false
			}
			defer ch.Close()
			return ch.LastSeq() > 0
		})
	}
}

func TestPublisherLogsPutsAndRemovesChannels(t *testing.T) {
	opts, put := imu(t)
	log, err := publishing(t, opts, put)
	if err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`msg=published channel=imu count=[1-9]\d* failed=\d+ worst_put=\d`); !want.MatchString(log) {
		t.Errorf("log: got %s, want a line that matches %s", log, want)
	}
	if _, err := opts.dir.Open("imu"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open(imu) = %v, want %v", err, fs.ErrNotExist)
	}
}

// The child waits until the channel no longer changes.
func TestSIGUSR1StopsPutsAndKeepsChannels(t *testing.T) {
	opts, _ := imu(t)
	opts.child = []string{"sh", "-c", `kill -USR1 "$PPID"; for i in $(seq 500); do cp "$0" "$0.rests"; sleep 0.05; cmp -s "$0" "$0.rests" && exit 0; done; exit 1`,
		filepath.Join(string(opts.dir), "achshm-imu")}
	var log strings.Builder
	if err := opts.run(t.Context(), slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Errorf("run = %v, want that the channel is there and does not change", err)
	}
	if n := strings.Count(log.String(), "msg=published"); n != 1 {
		t.Errorf("log: told %d times how the puts went, want once:\n%s", n, &log)
	}
}

func TestPublisherEndsWhenChildExits(t *testing.T) {
	opts, _ := imu(t)
	opts.child = []string{"sh", "-c", "exit 7"}
	err := opts.run(t.Context(), slog.New(slog.DiscardHandler))
	child, ok := errors.AsType[*exec.ExitError](err)
	if !ok || child.ExitCode() != 7 {
		t.Errorf("run = %v, want the child's exit code 7", err)
	}
}

func TestSignalEndsTheChild(t *testing.T) {
	opts, _ := imu(t)
	child := filepath.Join(string(opts.dir), "child")
	opts.child = []string{"sh", "-c", `trap 'echo ended >"$0"; exit 0' TERM; echo began >"$0"; while :; do sleep 0.01; done`, child}
	said := func() string {
		text, _ := os.ReadFile(child)
		return string(text)
	}
	_, err := publishing(t, opts, func() {
		t.Helper()
		await.True(t, "the child has not begun", func() bool { return said() == "began\n" })
	})
	if err != nil {
		t.Errorf("run = %v, want nil", err)
	}
	if got := said(); got != "ended\n" {
		t.Errorf("child: said %q last, want that it had SIGTERM and ended itself", got)
	}
}

func TestTooSmallChannelIsRefused(t *testing.T) {
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

func TestParseOptionsRefusesInvalidValues(t *testing.T) {
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
		var stderr strings.Builder
		if _, err := parseOptions(strings.Fields(args), &stderr); err == nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: got %v and %q, want %q in it", args, err, &stderr, want)
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
	t.Setenv("PUBLISHER_CHANNELS", "leg:5:64 gps:1:100")
	if opts, err := parseOptions(nil, io.Discard); err != nil || len(opts.channels) != 2 || opts.channels[1] != (stream{Name: "gps", Rate: 1, Size: 100}) {
		t.Errorf("channels of the environment: got %v, %v", opts.channels, err)
	}
}

// privateDir returns a directory in shared memory that no other program uses.
func privateDir(t *testing.T) localach.Dir {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "publisher-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return localach.Dir(dir)
}
