package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
	"achbridge/testnet/await"
)

var imu = Stream{Name: "imu", Rate: 500, Size: 64}

// publishing runs a publisher until do returns, and returns its log and its error.
func publishing(t *testing.T, dir localach.Dir, do func(), streams ...Stream) (string, error) {
	t.Helper()
	var log strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Config{Dir: dir, Streams: streams, Log: slog.New(slog.NewTextHandler(&log, nil))})
	}()
	for _, s := range streams {
		awaitFrames(t, dir, s.Name, 0)
	}
	do()
	cancel()
	err := await.Receive(t, "Run has not returned", done)
	return log.String(), err
}

// awaitFrames waits until a channel has a frame with a greater number.
func awaitFrames(t *testing.T, dir localach.Dir, channel string, after uint64) {
	t.Helper()
	await.True(t, "nothing is put into "+channel, func() bool {
		info, err := dir.Info(channel)
		return err == nil && info.LastSeq > after
	})
}

// files returns the names of all files in a directory.
func files(t *testing.T, dir localach.Dir) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(string(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// privateDir returns a directory in shared memory that no other program uses.
func privateDir(t *testing.T) localach.Dir {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "publish-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return localach.Dir(dir)
}

func TestFramesHaveCountClockAndSine(t *testing.T) {
	dir := privateDir(t)
	_, err := publishing(t, dir, func() {
		channel, err := dir.Open("imu")
		if err != nil {
			t.Fatal(err)
		}
		defer channel.Close()
		reader, frame, last := channel.Reader(), make([]byte, 64), 0.0
		kind := config.PublishedLayout(dir, "imu")
		for range 20 {
			n, err := reader.Next(frame, await.Limit)
			if err != nil || n != 64 {
				t.Fatalf("Next = %d bytes, %v, want 64", n, err)
			}
			got := numbers(t, kind, frame)
			if got["count"] != float64(reader.Seq()) {
				t.Errorf("count = %v, want Ach's number %d", got["count"], reader.Seq())
			}
			if sine := math.Sin(2 * math.Pi * math.Mod(got["clock"], 5e9) / 5e9); got["clock"] <= last || math.Abs(got["sine"]-sine) > 1e-3 {
				t.Errorf("got %v, want a clock after %v and the sine %v", got, last, sine)
			}
			last = got["clock"]
		}
	}, imu)
	if err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// numbers returns the values of a frame's fields.
func numbers(t *testing.T, l *layout.Layout, frame []byte) map[string]float64 {
	t.Helper()
	value, err := l.Decode(frame)
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]float64{}
	for i := range value.Field().Fields {
		m := value.Member(i)
		numbers[m.Field().Name], _ = m.Number()
	}
	return numbers
}

func TestFramesDoNotCompress(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	frame := newFrame(300_000)
	fill(frame, 1)
	if n := len(encoder.EncodeAll(frame, nil)); n < len(frame)-100 {
		t.Errorf("a frame of %d bytes compresses to %d, want about as many", len(frame), n)
	}
}

func TestSmallFramesHaveTheFieldsThatFit(t *testing.T) {
	for size, want := range map[int]string{1: "random", 7: "random", 8: "count", 15: "count", 16: "count clock", 23: "count clock", 24: "count clock sine", 1 << 20: "count clock sine"} {
		l := Stream{Name: "imu", Rate: 1, Size: size}.layout()
		var names []string
		for _, f := range l.Fields {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("a frame of %d bytes has %q, want %q", size, got, want)
		}
		frame := newFrame(size)
		fill(frame, 1)
		if _, err := l.Decode(frame); err != nil {
			t.Errorf("a frame of %d bytes: %v", size, err)
		}
	}
}

func TestEndOfRunLogsPutsAndLeavesNothing(t *testing.T) {
	dir := privateDir(t)
	log, err := publishing(t, dir, func() {}, imu, Stream{Name: "camera", Rate: 100, Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`msg="frames published" channel=imu count=[1-9]\d* failed=0 worst_put=\d`); !want.MatchString(log) {
		t.Errorf("log: got %s, want a line that matches %s", log, want)
	}
	if left := files(t, dir); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

// One process is enough for a robot's thirty channels. While it waits, it takes no CPU time.
func TestThirtyChannelsKeepTheirRate(t *testing.T) {
	var streams []Stream
	for i := range 30 {
		streams = append(streams, Stream{Name: "leg-" + strconv.Itoa(i), Rate: 20, Size: 64})
	}
	dir := privateDir(t)
	var cpu time.Duration
	_, err := publishing(t, dir, func() {
		before := cpuTime(t)
		for _, s := range streams {
			awaitFrames(t, dir, s.Name, 20)
		}
		cpu = cpuTime(t) - before
	}, streams...)
	if err != nil {
		t.Fatal(err)
	}
	if cpu > 800*time.Millisecond { // a thread that spins for a second takes a second
		t.Errorf("600 puts in a second took %v of CPU time", cpu)
	}
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func TestSIGUSR1StopsPutsAndKeepsChannels(t *testing.T) {
	dir := privateDir(t)
	var log logText
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Config{Dir: dir, Streams: []Stream{imu}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	}()
	awaitFrames(t, dir, "imu", 0)
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the puts go on", func() bool { return strings.Contains(log.String(), "frames published") })
	if info, err := dir.Info(imu.Name); err != nil || !strings.Contains(log.String(), fmt.Sprintf("count=%d ", info.LastSeq)) {
		t.Errorf("the channel: %v, %d frames; want that it stays as the log has it:\n%s", err, info.LastSeq, &log)
	}
	cancel()
	if err := await.Receive(t, "Run has not returned", done); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// logText is a log that the test reads while it is written.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestForeignChannelIsRefused(t *testing.T) {
	dir := privateDir(t)
	foreign, err := dir.Create("imu", localach.CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	check := func(when string) {
		t.Helper()
		err := Run(t.Context(), Config{Dir: dir, Streams: []Stream{imu}, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), "channel imu: exists, and publish did not make it") || ui.Fix(err) == "" {
			t.Errorf("%s: Run = %v, fix %q; want that publish did not make the channel, with a fix", when, err, ui.Fix(err))
		}
		if got := files(t, dir); len(got) != 1 || foreign.LastSeq() != 0 {
			t.Errorf("%s: got the files %q and %d frames, want the channel unchanged", when, got, foreign.LastSeq())
		}
	}
	check("without a publisher's file")
	text, err := config.Published{Inode: 1, PID: 1, Layout: imu.layout()}.Text()
	if err == nil {
		err = os.WriteFile(filepath.Join(string(dir), config.PublishedFile("imu")), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	check("with the file of another channel")
	if os.Geteuid() != 0 {
		return
	}
	stat, err := foreign.Stat()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(string(dir), config.PublishedFile("imu"))
	if text, err = (config.Published{Inode: stat.Inode, PID: 1, Layout: imu.layout()}).Text(); err == nil {
		err = errors.Join(os.WriteFile(path, text, 0o600), os.Chown(path, 12345, -1))
	}
	if err != nil {
		t.Fatal(err)
	}
	check("with the file of another user")
}

func TestChannelOfARunningPublisherIsRefused(t *testing.T) {
	dir := privateDir(t)
	_, err := publishing(t, dir, func() {
		err := Run(t.Context(), Config{Dir: dir, Streams: []Stream{{Name: "joints", Rate: 1, Size: 8}, imu}, Log: slog.New(slog.DiscardHandler)})
		want := "channel imu: another publish writes it: process " + strconv.Itoa(os.Getpid())
		if err == nil || err.Error() != want || ui.Fix(err) == "" {
			t.Errorf("Run = %v, want %q with a fix", err, want)
		}
		if got := files(t, dir); len(got) != 2 {
			t.Errorf("got the files %q, want the first publisher's two", got)
		}
	}, imu)
	if err != nil {
		t.Errorf("the first Run = %v, want nil", err)
	}
}

// killed publishes in another process, kills that process, and returns the Info of the channel that it left.
func killed(t *testing.T, dir localach.Dir) localach.Info {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPublisherToKill$")
	cmd.Env = append(os.Environ(), "PUBLISH_INTO="+string(dir))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitFrames(t, dir, "imu", 10)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	info, err := dir.Info(imu.Name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestPublisherToKill is the process that the function killed starts and kills.
func TestPublisherToKill(t *testing.T) {
	if dir := os.Getenv("PUBLISH_INTO"); dir != "" {
		t.Fatal(Run(t.Context(), Config{Dir: localach.Dir(dir), Streams: []Stream{imu}, Log: slog.New(slog.DiscardHandler)}))
	}
}

func TestChannelOfAKilledPublisherIsTaken(t *testing.T) {
	dir := privateDir(t)
	before := killed(t, dir)
	_, err := publishing(t, dir, func() {
		awaitFrames(t, dir, "imu", before.LastSeq+1)
		if after, _ := dir.Info(imu.Name); after.Inode != before.Inode {
			t.Error("the channel has a new file, want that its readers keep theirs")
		}
		if p, _ := config.ReadPublished(dir, "imu"); p.PID != os.Getpid() {
			t.Errorf("the file names process %d, want this one", p.PID)
		}
	}, imu)
	if left := files(t, dir); err != nil || left != nil {
		t.Errorf("Run = %v, and left %q", err, left)
	}
}

func TestChannelOfAKilledPublisherGetsOtherFrames(t *testing.T) {
	dir := privateDir(t)
	before := killed(t, dir)
	large := Stream{Name: "imu", Rate: 500, Size: 4000}
	_, err := publishing(t, dir, func() {
		await.True(t, "the channel has no larger frames", func() bool {
			info, err := dir.Info(imu.Name)
			return err == nil && info.Inode != before.Inode && info.Geometry.FrameSize >= 4000 && info.LastSeq > 0
		})
		if l := config.PublishedLayout(dir, "imu"); l == nil || l.Size != 4000 {
			t.Errorf("layout: got %+v, want one of 4000 bytes", l)
		}
	}, large)
	if left := files(t, dir); err != nil || left != nil {
		t.Errorf("Run = %v, and left %q", err, left)
	}
}

// Root can take over a channel that another user's publisher has left.
func TestLayoutIsFoundAfterAnotherUsersPublisher(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: run the test with sudo")
	}
	for _, next := range []Stream{imu, {Name: "imu", Rate: 500, Size: 4000}} {
		dir := privateDir(t)
		last := killed(t, dir).LastSeq
		for _, name := range files(t, dir) {
			if err := os.Chown(filepath.Join(string(dir), name), 12345, -1); err != nil {
				t.Fatal(err)
			}
		}
		_, err := publishing(t, dir, func() {
			if next.Size == imu.Size {
				awaitFrames(t, dir, "imu", last+1)
			}
			await.True(t, "the layout is not found", func() bool {
				l := config.PublishedLayout(dir, "imu")
				return l != nil && l.Size == next.Size
			})
		}, next)
		if err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	}
}

func TestForgetRemovesOnlyADeadPublishersFile(t *testing.T) {
	dir := privateDir(t)
	killed(t, dir)
	if err := dir.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	Forget(dir, "imu")
	if left := files(t, dir); left != nil {
		t.Errorf("left behind: %q", left)
	}
	_, _ = publishing(t, dir, func() {
		Forget(dir, "imu")
		if got := files(t, dir); len(got) != 2 {
			t.Errorf("got the files %q, want those of the running publisher", got)
		}
	}, imu)
}

// A program may replace the channel while publish runs.
func TestReplacedChannelEndsPublisherAndStays(t *testing.T) {
	dir := privateDir(t)
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), Config{Dir: dir, Streams: []Stream{imu}, Log: slog.New(slog.DiscardHandler)})
	}()
	awaitFrames(t, dir, "imu", 0)
	other, err := dir.Create("imu", localach.CreateConfig{Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := await.Receive(t, "publish puts frames that nobody can read", done); !errors.Is(err, localach.ErrReplaced) {
		t.Errorf("Run = %v, want %v", err, localach.ErrReplaced)
	}
	if err := other.Check(); err != nil {
		t.Errorf("the other program's channel: %v, want it unchanged", err)
	}
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("got the files %q, want the other program's channel", got)
	}
}

func TestParseStreams(t *testing.T) {
	for args, want := range map[string]string{
		"imu":                  "want CHANNEL:HZ:SIZE",
		"imu:0:64":             `rate "0"`,
		"imu:NaN:64":           `rate "NaN"`,
		"imu:100000:64":        "to 10000 Hz",
		"imu:1:0":              `size "0": want 1 to 64MiB`,
		"imu:1:65MiB":          `size "65MiB"`,
		"imu:1:1MB":            `unit "MB"`,
		"a/b:1:64":             "bad channel name",
		"imu:1:8 joints imu:x": `"joints": want CHANNEL:HZ:SIZE`,
		"imu:1:8 imu:2:8":      "channel imu is named twice",
	} {
		if _, err := ParseStreams(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseStreams(%s) = %v, want %q in it", args, err, want)
		}
	}
	got, err := ParseStreams([]string{"arm:2.5:100", "camera:10:1MiB"})
	if want := []Stream{{Name: "arm", Rate: 2.5, Size: 100}, {Name: "camera", Rate: 10, Size: 1 << 20}}; err != nil || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("ParseStreams = %v, %v, want %v", got, err, want)
	}
}

// A daemon may read the file while a publisher overwrites it, so each text must replace the previous one completely.
func TestTextHasOneLength(t *testing.T) {
	short, err := config.Published{Inode: 1, PID: 1, Layout: imu.layout()}.Text()
	if err != nil {
		t.Fatal(err)
	}
	long, _ := config.Published{Inode: 1<<64 - 1, PID: 4194304, Layout: imu.layout()}.Text()
	if len(short) != len(long) || bytes.Equal(short, long) {
		t.Errorf("got texts of %d and %d bytes, want two of one length:\n%s%s", len(short), len(long), short, long)
	}
}
