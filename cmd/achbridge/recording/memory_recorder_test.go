package recording

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
)

const framePeriod = 20 * time.Millisecond

// recorderTest is a flight recorder of one channel, imu, in virtual time. Each frame has its number n and a value.
type recorderTest struct {
	*MemoryRecorder
	t     *testing.T
	topic *Topic
	n     uint64
	value float64

	mu      sync.Mutex
	results []Snapshot
	notes   []string
}

// inVirtualTime runs a flight recorder during test, in virtual time. Its rules have defaults as those of the configuration.
func inVirtualTime(t *testing.T, folder string, rules config.Recorder, test func(c *recorderTest)) {
	t.Helper()
	dir, kind := testDir(t), imuType(t)
	synctest.Test(t, func(t *testing.T) {
		c := &recorderTest{t: t, topic: &Topic{Channel: "imu", Host: "host", FrameCount: 16, FrameSize: 16, Mode: "0660", Type: kind}}
		for _, limit := range []struct {
			value *int64
			usual int64
		}{{&rules.Memory, 64 << 20}, {&rules.Quota, 64 << 20}, {(*int64)(&rules.Keep), int64(time.Minute)}, {(*int64)(&rules.After), int64(10 * time.Second)}} {
			if *limit.value == 0 {
				*limit.value = limit.usual
			}
		}
		f, err := NewMemoryRecorder(MemoryConfig{
			Config: Config{Dir: dir, Host: "host", Note: func(format string, args ...any) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.notes = append(c.notes, fmt.Sprintf(format, args...))
			}},
			Rules: rules, Folder: folder, Facts: map[string]string{"host": "host"},
			Report: func(s Snapshot) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.results = append(c.results, s)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.MemoryRecorder = f
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { f.writeSnapshots(ctx) })
		if rules.Files {
			number := f.recoverFiles()
			work.Go(func() { f.writeFiles(ctx, number) })
			synctest.Wait()
		}
		defer func() {
			cancel()
			work.Wait()
			close(f.hasEnded)
			f.ring.Clear()
		}()
		test(c)
	})
}

// feed adds frames for a time, one each framePeriod.
func (c *recorderTest) feed(d time.Duration) {
	for range d / framePeriod {
		c.n++
		frame := binary.LittleEndian.AppendUint64(nil, c.n)
		frame = binary.LittleEndian.AppendUint64(frame, math.Float64bits(c.value))
		now := c.r.now()
		if err := c.add(batch{frame, []item{{topic: c.topic, seq: c.n, log: now, publish: now, size: len(frame)}}}); err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(framePeriod)
	}
	synctest.Wait()
}

func (c *recorderTest) event(kind status.EventKind) {
	c.Event(status.Event{Seq: 1, Kind: kind, Mirror: "imu", Text: "what happened"})
}

// frames returns the numbers of the frames in each snapshot that was written.
func (c *recorderTest) frames() (files [][]uint64) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.results {
		if s.Err != nil {
			c.t.Errorf("snapshot %s: %v", s.Path, s.Err)
			continue
		}
		list, whole := all(c.t, s.Path)
		if !whole {
			c.t.Errorf("%s is not complete", s.Path)
		}
		files = append(files, numbers(list, "imu"))
	}
	return files
}

func (c *recorderTest) want(what string, files ...[]uint64) {
	c.t.Helper()
	got := c.frames()
	if len(got) != len(files) {
		c.t.Fatalf("%s: got %d snapshots, want %d", what, len(got), len(files))
	}
	for i := range files {
		if !slices.Equal(got[i], files[i]) {
			c.t.Errorf("%s: snapshot %d has %d frames %d to %d, want %d to %d", what, i, len(got[i]), slices.Min(got[i]), slices.Max(got[i]), files[i][0], files[i][len(files[i])-1])
		}
	}
}

// at returns the number of the first frame at a time after the start.
func at(d time.Duration) uint64 { return uint64(d/framePeriod) + 1 }

func TestEventWritesFramesBeforeAndAfter(t *testing.T) {
	inVirtualTime(t, t.TempDir(), config.Recorder{On: []string{"foreign_writer"}, Hold: time.Minute}, func(c *recorderTest) {
		c.feed(100 * time.Second)
		c.event(status.EventLinkDown) // not listed in on
		c.event(status.EventForeignWriter)
		if !c.Status().Running {
			t.Error("no snapshot is running after the event")
		}
		c.feed(20 * time.Second)
		c.want("event after 100 s", upTo(at(40*time.Second), at(110*time.Second)-1))
		s := c.results[0]
		if s.Frames != 70*50 || s.Channels != 1 || s.Lost != 0 || s.Until.Sub(s.From) != 70*time.Second || s.Reason != "foreign_writer: what happened" {
			t.Errorf("got %+v, want 3500 frames in 70 s", s)
		}
		if st, err := os.Stat(s.Path); err != nil || st.Size() != s.Bytes {
			t.Errorf("the file has %v bytes, %v, want %d", st, err, s.Bytes)
		}
		r := library(t, s.Path)
		info, err := r.Info()
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]int{}
		messages, err := r.Messages()
		if err != nil {
			t.Fatal(err)
		}
		for {
			schema, channel, m, err := messages.NextInto(nil)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if channel.Topic == EventsTopic {
				texts[string(m.Data)]++
				continue
			}
			if channel.Topic != "imu" || schema == nil || schema.Encoding != "ros1msg" {
				t.Fatalf("topic %s has schema %v, want the layout of imu", channel.Topic, schema)
			}
		}
		if info.Statistics.MessageCount != 3500+3 || len(texts) != 3 {
			t.Errorf("the mcap library finds %d messages, and events %v, want 3500 frames, two events and the trigger", info.Statistics.MessageCount, texts)
		}
	})
}

// The first missed deadline of a mirror is reported as mirror_stale.
func TestDeadlineMissedIncludesFirstOne(t *testing.T) {
	inVirtualTime(t, t.TempDir(), config.Recorder{On: []string{"deadline_missed"}, Hold: 30 * time.Second}, func(c *recorderTest) {
		c.feed(time.Second)
		c.event(status.EventMirrorStale)
		c.feed(5 * time.Second)
		c.event(status.EventDeadlineMissed) // within hold: it does not extend the snapshot
		c.feed(20 * time.Second)
		c.want("two missed deadlines", upTo(1, at(11*time.Second)-1))
	})
}

func TestOverlappingTriggersPutNoFrameIntoTwoSnapshots(t *testing.T) {
	inVirtualTime(t, t.TempDir(), config.Recorder{On: []string{"link_down"}}, func(c *recorderTest) {
		c.feed(100 * time.Second)
		c.event(status.EventLinkDown)
		c.feed(5 * time.Second)
		c.event(status.EventLinkDown)
		c.feed(9990 * time.Millisecond / framePeriod * framePeriod)
		c.feed(60 * time.Millisecond) // the first has ended by its time, and is still open for frames that are on their way
		c.event(status.EventLinkDown)
		c.feed(30 * time.Second)
		c.event(status.EventLinkDown)
		c.feed(20 * time.Second)
		// The third trigger came at 115.04 s, the fourth at 145.04 s.
		end := 125040 * time.Millisecond
		c.want("four triggers", upTo(at(40*time.Second), at(end)-1), upTo(at(end), at(155040*time.Millisecond)-1))
	})
}

func TestConditionWritesSnapshotOnRisingEdge(t *testing.T) {
	when := []config.Condition{{Channel: "imu", Field: "a b", Limit: 30, Hold: 20 * time.Second}}
	inVirtualTime(t, t.TempDir(), config.Recorder{When: when}, func(c *recorderTest) {
		c.value = 40
		c.feed(time.Second) // high from the beginning is no edge
		c.value = 30
		c.feed(time.Second)
		c.value = math.NaN()
		c.feed(time.Second)
		c.value = 30.5
		c.feed(12 * time.Second)
		c.value = 0
		c.feed(time.Second)
		c.value = 99 // within hold
		c.feed(20 * time.Second)
		c.want("one edge", upTo(1, at(13*time.Second)-1))
		if want := "imu: a b is 30.5, above 30"; c.results[0].Reason != want {
			t.Errorf("the reason is %q, want %q", c.results[0].Reason, want)
		}
		c.value = 0
		c.feed(time.Second)
		c.value = 99
		c.feed(11 * time.Second)
		if got := len(c.frames()); got != 2 {
			t.Errorf("got %d snapshots after hold, want 2", got)
		}
	})
}

func TestConditionThatCannotBeCheckedIsReported(t *testing.T) {
	when := []config.Condition{{Channel: "imu", Field: "acc.z", Below: true}}
	inVirtualTime(t, t.TempDir(), config.Recorder{When: when}, func(c *recorderTest) {
		kind := c.topic.Type
		for _, step := range []struct {
			kind *Type
			want string
		}{{kind, `imu: field "acc.z": imu has no acc`}, {nil, "imu: the layout of its frames is not known: add it to types"}} {
			topic := *c.topic
			topic.Type = step.kind
			c.topic = &topic
			c.feed(time.Second)
			if got := c.Status().Problems; len(got) != 1 || got[0] != step.want {
				t.Errorf("the problems are %q, want %q", got, step.want)
			}
		}
		if len(c.notes) != 2 {
			t.Errorf("got notes %q, want each problem once", c.notes)
		}
	})
}

// A robot's disk is full: the snapshot ends, what it has is readable, and the next one works.
func TestFullDiskEndsSnapshotOnly(t *testing.T) {
	folder := fullDisk(t)
	noise := bytes.Repeat([]byte{1}, 16<<10)
	random := uint64(1)
	inVirtualTime(t, folder, config.Recorder{On: []string{"link_down"}}, func(c *recorderTest) {
		camera := &Topic{Channel: "camera", Host: "host", FrameCount: 4, FrameSize: len(noise), Mode: "0660"}
		large := func(d time.Duration) {
			for range d / framePeriod {
				for i := range noise[:len(noise)/4] {
					random = random*6364136223846793005 + 1442695040888963407
					noise[i] = byte(random >> 56) // this quarter does not compress
				}
				now := c.r.now()
				_ = c.add(batch{noise, []item{{topic: camera, log: now, publish: now, size: len(noise)}}})
				time.Sleep(framePeriod)
			}
			synctest.Wait()
		}
		large(10 * time.Second) // 2 MB when compressed
		c.event(status.EventLinkDown)
		large(time.Second)
		s := c.results[0]
		if !errors.Is(s.Err, syscall.ENOSPC) || s.Path == "" {
			t.Fatalf("got %+v, want an error about space, and a file", s)
		}
		if got, err := Summarize(s.Path); err != nil || got.Frames == 0 || got.Complete {
			t.Errorf("the file has %d frames, complete %v, %v, want those that were written", got.Frames, got.Complete, err)
		}
		if last := c.Status().Last; last == nil || last.Err == nil {
			t.Errorf("the status has %+v, want the error", last)
		}
		c.event(status.EventLinkDown) // the disk is still full
		large(time.Second)
		if len(c.results) != 2 || c.results[1].Err == nil {
			t.Fatalf("got %+v, want a second error", c.results)
		}
		for _, s := range c.results {
			os.Remove(s.Path)
		}
		c.feed(80 * time.Second)
		c.event(status.EventLinkDown)
		c.feed(20 * time.Second)
		if s := c.results[2]; s.Err != nil || s.Frames == 0 || c.Status().Snapshots != 1 {
			t.Errorf("with room again: got %+v, want a snapshot", s)
		}
	})
}

func TestQuotaRemovesOldestSnapshots(t *testing.T) {
	folder := t.TempDir()
	for i, name := range []string{"snapshot-000007-20300101T000000Z.mcap", "snapshot-000008-20200102T000000Z.mcap", "mine.mcap"} {
		if err := os.WriteFile(filepath.Join(folder, name), make([]byte, (3-i)<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inVirtualTime(t, folder, config.Recorder{On: []string{"link_down"}, Quota: 5 << 20}, func(c *recorderTest) {
		c.feed(time.Second)
		c.event(status.EventLinkDown)
		c.feed(20 * time.Second)
		c.want("with a quota", upTo(1, at(11*time.Second)-1))
		left, _ := filepath.Glob(filepath.Join(folder, "*"))
		want := []string{filepath.Join(folder, "mine.mcap"), filepath.Join(folder, "snapshot-000008-20200102T000000Z.mcap"), c.results[0].Path}
		slices.Sort(want)
		if !slices.Equal(left, want) || len(c.notes) != 1 || !strings.Contains(c.notes[0], "snapshot-000007") {
			t.Errorf("left are %v, notes %q, want %v and a note", left, c.notes, want)
		}
	})
}

// A single snapshot that exceeds the quota ends there. Its file is complete.
func TestQuotaEndsSnapshot(t *testing.T) {
	inVirtualTime(t, t.TempDir(), config.Recorder{On: []string{"link_down"}, Quota: quotaStep + 1000}, func(c *recorderTest) {
		c.feed(time.Second)
		c.event(status.EventLinkDown)
		c.feed(20 * time.Second)
		s := c.results[0]
		if !errors.Is(s.Err, errQuota) {
			t.Fatalf("got %+v, want the quota as error", s)
		}
		if got, err := Summarize(s.Path); err != nil || !got.Complete || got.Frames == 0 {
			t.Errorf("the file has %d frames, complete %v, %v, want a complete file", got.Frames, got.Complete, err)
		}
	})
}

// A robot without a battery for its clock begins in 1970, and its clock is set while the recorder runs.
func TestSnapshotHasTimesOfCorrectedClock(t *testing.T) {
	inVirtualTime(t, t.TempDir(), config.Recorder{On: []string{"link_down"}, Keep: 5 * time.Second, After: time.Second}, func(c *recorderTest) {
		const ahead = 26 * 365 * 24 * time.Hour
		c.topic.Stamps = Stamps{"sns", 7 * ahead}
		c.clock = func() time.Time { return time.Now().Add(ahead) }
		c.feed(10 * time.Second)
		fired := c.clock()
		c.event(status.EventLinkDown)
		c.feed(2 * time.Second)
		list, _ := all(t, c.results[0].Path)
		first, last := list[0], list[len(list)-1]
		if !first.Log.Equal(fired.Add(-5*time.Second)) || !first.Publish.Equal(first.Log) || !last.Log.Equal(fired.Add(time.Second-framePeriod)) {
			t.Errorf("the frames are from %v to %v, want 5 s before %v to 1 s after it", first.Log, last.Log, fired)
		}
		if got := first.Topic.Stamps.Clock; got != 6*ahead {
			t.Errorf("the clock of the stamps is %v ahead of the file's times, want %v", got, 6*ahead)
		}
		if want := "-" + fired.UTC().Format(snapshotTime) + ".mcap"; !strings.HasSuffix(c.results[0].Path, want) {
			t.Errorf("the file is called %s, want ...%s", c.results[0].Path, want)
		}
	})
}

// Triggers go on for half an hour: the files are of 10 min each, and together have each frame once.
func TestEndlessTriggersSplitSnapshots(t *testing.T) {
	inVirtualTime(t, t.TempDir(), config.Recorder{On: []string{"link_down"}}, func(c *recorderTest) {
		c.feed(2 * time.Minute)
		for range 6 * 30 {
			c.event(status.EventLinkDown)
			c.feed(10 * time.Second)
		}
		c.feed(time.Minute)
		files := c.frames()
		if len(files) != 4 {
			t.Errorf("got %d files, want 4", len(files))
		}
		if got := slices.Concat(files...); !slices.Equal(got, upTo(at(time.Minute), at(32*time.Minute)-1)) {
			t.Errorf("got %d frames, want each from 1 min to 32 min once", len(got))
		}
	})
}

func TestEndOfDaemonCompletesSnapshot(t *testing.T) {
	var path string
	inVirtualTime(t, t.TempDir(), config.Recorder{On: []string{"link_down"}}, func(c *recorderTest) {
		c.feed(time.Second)
		c.event(status.EventLinkDown)
		c.feed(3 * time.Second)
		path = c.Folder()
	})
	found, _ := filepath.Glob(filepath.Join(path, snapshotPattern))
	if len(found) != 1 {
		t.Fatalf("got files %v, want one", found)
	}
	if s := summary(t, found[0]); !s.Complete || s.Frames != 200 || s.Trigger != "link_down: what happened" {
		t.Errorf("got %+v, want the 200 frames of 4 s", s)
	}
}

func (c *recorderTest) Folder() string { return c.cfg.Folder }

// blocked is a client that stops reading.
type blocked struct{ open chan struct{} }

func (b blocked) Write(p []byte) (int, error) { <-b.open; return len(p), nil }

// A client that does not read costs no memory: the recorder goes on, and counts what the client did not get.
func TestSlowSnapshotIsCutNotTheMemory(t *testing.T) {
	inVirtualTime(t, t.TempDir(), config.Recorder{Memory: 8 << 20}, func(c *recorderTest) {
		camera := &Topic{Channel: "camera", Host: "host", FrameCount: 4, FrameSize: 1 << 20, Mode: "0660"}
		large := func(count int) {
			for i := range count {
				now := c.r.now()
				data := bytes.Repeat([]byte{byte(i)}, 500_000)
				_ = c.add(batch{data, []item{{topic: camera, log: now, publish: now, size: len(data)}}})
				time.Sleep(framePeriod)
			}
			synctest.Wait()
		}
		large(8)
		client := blocked{make(chan struct{})}
		result := make(chan Snapshot, 1)
		go func() {
			s, err := c.Snapshot(c.t.Context(), client, time.Minute, 2*time.Second)
			s.Err = err
			result <- s
		}()
		large(100)
		if used := c.Status().Memory; used > 8<<20 {
			t.Errorf("the frames take %d bytes, want 8 MiB at most", used)
		}
		close(client.open)
		large(100)
		if s := <-result; s.Err != nil || s.Lost == 0 || s.Frames+s.Lost != 8+100 {
			t.Errorf("got %+v, want 108 frames, some of them lost", s)
		}
	})
}

func TestSnapshotOfPartOfMemory(t *testing.T) {
	inVirtualTime(t, t.TempDir(), config.Recorder{}, func(c *recorderTest) {
		c.feed(90 * time.Second)
		var file bytes.Buffer
		done := make(chan Snapshot, 1)
		go func() {
			s, err := c.Snapshot(c.t.Context(), &file, 5*time.Second, 2*time.Second)
			s.Err = err
			done <- s
		}()
		synctest.Wait()
		c.feed(10 * time.Second)
		s := <-done
		path := filepath.Join(t.TempDir(), "part.mcap")
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		list, whole := all(t, path)
		if got := numbers(list, "imu"); !whole || !slices.Equal(got, upTo(at(85*time.Second), at(92*time.Second)-1)) {
			t.Errorf("got %d frames, complete %v, want those of 85 s to 92 s", len(got), whole)
		}
		if s.Err != nil || s.Bytes != int64(file.Len()) || s.Frames != 350 {
			t.Errorf("got %+v, want 350 frames and %d bytes", s, file.Len())
		}
		if covers := c.Status().Covers; covers != time.Minute {
			t.Errorf("the memory covers %v, want a minute", covers)
		}
	})
}
