package recording

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/testnet/await"
)

func testDir(t *testing.T) localach.Dir {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "recording-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return localach.Dir(dir)
}

// source is a channel into which a test puts frames.
type source struct {
	t  *testing.T
	ch *localach.Channel
	w  *localach.Writer
}

func create(t *testing.T, dir localach.Dir, name string, frames, size int) *source {
	t.Helper()
	ch, err := dir.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: frames, FrameSize: size}.Grow(), Mode: 0o660})
	if err != nil {
		t.Fatal(err)
	}
	s := &source{t, ch, ch.Writer()}
	t.Cleanup(func() { s.w.Close(); s.ch.Close() })
	return s
}

// put puts a frame that contains n.
func (s *source) put(n uint64) {
	s.t.Helper()
	if _, err := s.w.Put(binary.LittleEndian.AppendUint64(make([]byte, 0, 16), n)); err != nil {
		s.t.Fatal(err)
	}
}

// record records until the returned function is called.
func record(t *testing.T, cfg Config) (end func() (Report, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cfg.Host, cfg.Files.every = "host", 20*time.Millisecond
	if cfg.Files.Facts == nil {
		cfg.Files.Facts = map[string]string{"host": "host"}
	}
	var report Report
	var err error
	done := make(chan struct{})
	go func() { report, err = Run(ctx, cfg); close(done) }()
	end = func() (Report, error) {
		t.Helper()
		cancel()
		await.Receive(t, "the end of the recorder", done)
		return report, err
	}
	t.Cleanup(func() { _, _ = end() })
	return end
}

// all reads a file. whole means that the file is complete.
func all(t *testing.T, path string) (list []Record, whole bool) {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		m, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, ErrCut) {
			return list, errors.Is(err, io.EOF)
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Data = slices.Clone(m.Data)
		list = append(list, m)
	}
}

// numbers returns the numbers of a channel's frames.
func numbers(list []Record, channel string) (numbers []uint64) {
	for _, m := range list {
		if m.Drop == nil && m.Name == channel {
			numbers = append(numbers, binary.LittleEndian.Uint64(m.Data))
		}
	}
	return numbers
}

func upTo(from, to uint64) (list []uint64) {
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

// there waits until the file has that many frames of a channel in complete chunks.
func there(t *testing.T, path, channel string, frames int) {
	t.Helper()
	await.True(t, fmt.Sprintf("%d frames of %s in the file", frames, channel), func() bool {
		if r, err := Open(path); err != nil {
			return false // the file does not exist yet
		} else {
			r.Close()
		}
		list, _ := all(t, path)
		return len(numbers(list, channel)) >= frames
	})
}

func TestEveryFrameIsRecordedOnce(t *testing.T) {
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	imu := create(t, dir, "imu", 4096, 64)
	for n := range uint64(5) {
		imu.put(n + 1)
	}
	end := record(t, Config{Dir: dir, Files: Files{Path: path}})
	there(t, path, "imu", 1) // the newest of the frames before the recording
	for n := range uint64(1000) {
		imu.put(n + 6)
	}
	later := create(t, dir, "later", 16, 64) // all frames of a new channel are recorded
	for n := range uint64(10) {
		later.put(n + 1)
	}
	there(t, path, "later", 10)
	before := time.Now()
	imu.put(1006)
	report, err := end()
	if err != nil {
		t.Fatal(err)
	}
	list, whole := all(t, path)
	if !whole {
		t.Error("got an incomplete file")
	}
	if got := numbers(list, "imu"); !slices.Equal(got, upTo(5, 1006)) {
		t.Errorf("got %d frames of imu: %v", len(got), got)
	}
	if got := numbers(list, "later"); !slices.Equal(got, upTo(1, 10)) {
		t.Errorf("got %v of later, want 1 to 10", got)
	}
	last := list[len(list)-1]
	if want := (Topic{Channel: "imu", Host: "host", FrameCount: 4096, FrameSize: imu.ch.Geometry().FrameSize, Mode: "0660"}); *last.Topic != want {
		t.Errorf("got %+v, want %+v", *last.Topic, want)
	}
	if last.Seq != 1006 || last.Log.Before(before) || last.Log.After(time.Now()) || !last.Publish.Equal(last.Log) {
		t.Errorf("got frame %d read at %v, captured at %v, want both after %v", last.Seq, last.Log, last.Publish, before)
	}
	if report.Frames != 1012 || report.Missed != 0 || report.Channels != 2 || len(report.Files) != 1 {
		t.Errorf("got %+v", report)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != report.Files[0].Bytes {
		t.Errorf("size in the report: got %d, want %v", report.Files[0].Bytes, st.Size())
	}
}

func TestRecordSelectsChannelsByPattern(t *testing.T) {
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	names := []string{"imu", "joints", "krang.imu", "krang.imu.meta"}
	for _, name := range names {
		create(t, dir, name, 16, 64).put(1)
	}
	feedMirror(t, dir, "krang.cam")
	temporary := create(t, dir, "peek-00112233-1", 16, 64)
	temporary.put(1)
	if err := temporary.ch.SetTag(localach.Tag{Node: [16]byte{1}, Channel: 1}, 0); err != nil {
		t.Fatal(err)
	}
	create(t, dir, "peek-a-boo", 16, 64).put(1) // no temporary mirror, but a robot's channel
	for _, c := range []struct {
		patterns, want []string
	}{
		{nil, []string{"imu", "joints", "krang.cam", "krang.imu", "krang.imu.meta", "peek-a-boo"}},
		{[]string{"i*", "krang.*"}, []string{"imu", "krang.cam", "krang.imu", "krang.imu.meta"}},
		{[]string{"krang.cam.meta"}, []string{"krang.cam.meta"}},
		{[]string{"peek-00112233-1"}, []string{"peek-00112233-1"}},
	} {
		os.Remove(path)
		end := record(t, Config{Dir: dir, Patterns: c.patterns, Files: Files{Path: path}})
		there(t, path, c.want[len(c.want)-1], 1)
		if _, err := end(); err != nil {
			t.Fatal(err)
		}
		s := summary(t, path)
		var got []string
		for _, ch := range s.Channels {
			got = append(got, ch.Channel)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.patterns, got, c.want)
		}
	}
}

// fed is a mirror with its metadata channel, as the daemon writes them.
type fed struct {
	frames, meta *source
}

func feedMirror(t *testing.T, dir localach.Dir, name string) fed {
	t.Helper()
	f := fed{create(t, dir, name, 16, 64), create(t, dir, name+".meta", 16, status.MetaSize)}
	mark := fnv.New64a()
	mark.Write([]byte("/" + name))
	if err := f.meta.ch.SetTag(localach.Tag{Node: [16]byte{1}, Channel: mark.Sum64()}, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.frames.ch.SetTag(localach.Tag{Node: [16]byte{1}, Channel: 1}, 0); err != nil {
		t.Fatal(err)
	}
	f.put(1, 0)
	return f
}

// put puts frame n, whose capture was age ago.
func (f fed) put(n uint64, age time.Duration) {
	f.frames.t.Helper()
	f.frames.put(n)
	m := status.Meta{Link: status.MetaUp, Seq: n, MirrorSeq: f.frames.ch.LastSeq()}
	if age != 0 {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			f.frames.t.Fatal(err)
		}
		m.Captured = time.Duration(ts.Nano()) - age
	}
	if _, err := f.meta.w.Put(m.Append(nil)); err != nil {
		f.frames.t.Fatal(err)
	}
}

func TestMirrorFramesAreRecordedWithCaptureTime(t *testing.T) {
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	m := feedMirror(t, dir, "krang.imu")
	end := record(t, Config{Dir: dir, Files: Files{Path: path}})
	there(t, path, "krang.imu", 1)
	var wants []time.Time
	for n := range uint64(10) {
		wants = append(wants, time.Now().Add(-time.Hour))
		m.put(n+2, time.Hour)
	}
	there(t, path, "krang.imu", 11)
	if _, err := end(); err != nil {
		t.Fatal(err)
	}
	list, _ := all(t, path)
	if first := list[0]; !first.Publish.Equal(first.Log) || first.Topic.Times != "origin" {
		t.Errorf("frame of unknown age: got captured at %v, read at %v, times %q", first.Publish, first.Log, first.Topic.Times)
	}
	for i, want := range wants {
		if off := list[i+1].Publish.Sub(want); off.Abs() > time.Minute {
			t.Errorf("frame %d: got capture time %v, %v too late", i+2, list[i+1].Publish, off)
		}
	}
	s := summary(t, path)
	if late := s.Channels[0].Late; late == nil || late.MaxMs < 3540e3 || late.MaxMs > 3660e3 {
		t.Errorf("got lateness %+v, want an hour", late)
	}
}

func TestMissedFramesAreCountedInFileAndReport(t *testing.T) {
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	imu := create(t, dir, "imu", 8, 64)
	imu.put(1)
	end := record(t, Config{Dir: dir, Files: Files{Path: path}})
	there(t, path, "imu", 1)
	for n := range uint64(20_000) { // as fast as it goes
		imu.put(n + 2)
	}
	report, err := end()
	if err != nil {
		t.Fatal(err)
	}
	list, _ := all(t, path)
	var missed, total uint64
	for _, m := range list {
		if m.Drop != nil && m.Drop.Channel == "imu" && m.Drop.Cause == "missed" {
			missed += m.Drop.Count
			total = m.Drop.Total
		}
	}
	got := uint64(len(numbers(list, "imu")))
	if missed == 0 || missed != total || missed != report.Missed || got+missed != 20_001 || got != report.Frames {
		t.Errorf("got %d frames, %d missed (total %d) in the file, report %+v, want 20001 frames in all", got, missed, total, report)
	}
}

func TestFrameCountersAreRecorded(t *testing.T) {
	t.Parallel() // the test waits for seconds
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	create(t, dir, "krang.imu", 16, 64).put(1)
	reports := uint64(0)
	end := record(t, Config{Dir: dir, Files: Files{Path: path}, Mirrors: func(context.Context) ([]status.Mirror, error) {
		reports++
		m := status.Mirror{Host: "krang", Channel: "imu", Name: "krang.imu"}
		m.Superseded, m.Lost = 100+min(reports, 3), 7
		if reports > 4 { // the daemon has restarted
			m.Superseded, m.Lost = 3, 0
		}
		m.Delivered = m.Superseded
		m.Offered = 2*m.Superseded + m.Lost
		if reports == 3 { // for a moment, one frame is counted twice
			m.Offered--
		}
		return []status.Mirror{m, {Name: "other", FrameCounters: ledger.FrameCounters{Lost: reports}}}, nil
	}})
	await.True(t, "five drops", func() bool {
		if _, err := os.Stat(path); err != nil {
			return false
		}
		s, err := Summarize(path)
		return err == nil && len(s.Channels) > 0 && s.Channels[0].Drops["superseded"] == 5
	})
	if _, err := end(); err != nil {
		t.Fatal(err)
	}
	s := summary(t, path)
	if c := s.Channels[0]; len(s.Channels) != 1 || len(c.Drops) != 1 || c.Origin != "krang/imu" || s.Frames != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestRecordingSplitsFilesBySize(t *testing.T) {
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	const limit = 256 << 10
	cam := create(t, dir, "cam", 64, 8<<10)
	end := record(t, Config{Dir: dir, Files: Files{Path: path, MaxSize: limit}})
	noise := make([]byte, 8<<10)
	file, err := os.Open("/dev/urandom")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cam.put(1)
	there(t, filepath.Join(filepath.Dir(path), "run-0001.mcap"), "cam", 1)
	for n := uint64(1); n < 100; n++ {
		if _, err := io.ReadFull(file, noise); err != nil {
			t.Fatal(err)
		}
		binary.LittleEndian.PutUint64(noise, n+1)
		if _, err := cam.w.Put(noise); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // without a pause, the recorder would miss most frames
	}
	report, err := end()
	if err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for i, f := range report.Files {
		if f.Bytes > limit || filepath.Base(f.Path) != fmt.Sprintf("run-%04d.mcap", i+1) {
			t.Errorf("file %d: got %+v, want at most %d bytes", i, f, limit)
		}
		if i < len(report.Files)-1 && f.Bytes < limit*3/4 {
			t.Errorf("file %d: got only %d bytes", i, f.Bytes)
		}
		list, whole := all(t, f.Path)
		if !whole {
			t.Errorf("%s is incomplete", f.Path)
		}
		got = append(got, numbers(list, "cam")...)
	}
	if report.Missed == 0 && !slices.Equal(got, upTo(1, 100)) || len(report.Files) < 4 {
		t.Errorf("got frames %v in %d files, missed %d", got, len(report.Files), report.Missed)
	}
}

func TestRecordingSplitsFilesByDuration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.mcap")
	now := time.Now()
	f := files{Files: Files{Path: path, MaxTime: 10 * time.Second, Facts: map[string]string{}}, now: func() time.Time { return now }}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	topic := Topic{Channel: "imu", FrameCount: 16, FrameSize: 64, Mode: "0660"}
	for n := range 25 {
		if err := f.frame(topic, message(uint64(n+1), now)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	var counts []int
	for _, m := range f.made {
		list, _ := all(t, m.Path)
		counts = append(counts, len(list))
	}
	if !slices.Equal(counts, []int{10, 10, 5}) {
		t.Errorf("got %v frames in the files, want 10, 10 and 5", counts)
	}
}

func TestRecordRefusesExistingAndInvalidPaths(t *testing.T) {
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		files Files
		want  string
	}{
		{Files{Path: path}, "the file exists already"},
		{Files{Path: filepath.Join(path, "x.mcap")}, "not a directory"},
	} {
		if _, err := record(t, Config{Dir: dir, Files: c.files})(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.files, err, c.want)
		}
	}
	if text, _ := os.ReadFile(path); string(text) != "mine" {
		t.Error("the existing file was changed")
	}
}

func TestRecordingFollowsReplacedChannel(t *testing.T) {
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	create(t, dir, "imu", 16, 64).put(1)
	end := record(t, Config{Dir: dir, Files: Files{Path: path}})
	there(t, path, "imu", 1)
	ch, err := dir.Create("imu", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: 200}.Grow(), Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	second := &source{t, ch, ch.Writer()}
	defer ch.Close()
	second.put(2)
	there(t, path, "imu", 2)
	if err := dir.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	create(t, dir, "imu", 16, 64).put(3)
	there(t, path, "imu", 3)
	if _, err := end(); err != nil {
		t.Fatal(err)
	}
	list, _ := all(t, path)
	if got := numbers(list, "imu"); !slices.Equal(got, upTo(1, 3)) {
		t.Errorf("got %v", got)
	}
	if list[1].Topic.FrameSize < 200 || list[2].Topic.FrameSize >= 200 {
		t.Errorf("got geometries %+v, %+v", list[1].Topic, list[2].Topic)
	}
}
