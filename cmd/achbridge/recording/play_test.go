package recording

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foxglove/mcap/go/mcap"

	"achbridge/localach"
)

// line is a frame of a test file.
type line struct {
	channel           string
	number            uint64
	read, captured    time.Duration // since the beginning of the recording
	frames, size, len int
	topic             func(*Topic) // changes the topic; may be nil
	data              []byte       // the frame; nil means number and zeros
}

func fileOf(t *testing.T, lines ...line) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.mcap")
	w, err := newWriter(path, map[string]string{"host": "host"})
	if err != nil {
		t.Fatal(err)
	}
	begin := uint64(1_700_000_000e9)
	for _, l := range lines {
		m := mcap.Message{LogTime: begin + uint64(l.read), PublishTime: begin + uint64(l.captured), Data: make([]byte, max(8, l.len))}
		binary.LittleEndian.PutUint64(m.Data, l.number)
		if l.data != nil {
			m.Data = l.data
		}
		topic := Topic{Channel: l.channel, FrameCount: cmp.Or(l.frames, 16), FrameSize: cmp.Or(l.size, 64), Mode: "0660"}
		if l.topic != nil {
			l.topic(&topic)
		}
		if err := w.frame(topic, m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.close(); err != nil {
		t.Fatal(err)
	}
	return path
}

const milli = time.Millisecond

// twoChannels writes a file with frames of this host and of a mirror, whose frames were read 30, 200 and 10 ms after their
// capture.
func twoChannels(t *testing.T) string {
	return fileOf(t,
		line{channel: "imu", number: 1, read: 0, captured: 0},
		line{channel: "krang.imu", number: 1, read: 40 * milli, captured: 10 * milli},
		line{channel: "imu", number: 2, read: 100 * milli, captured: 100 * milli},
		line{channel: "imu", number: 3, read: 200 * milli, captured: 200 * milli},
		line{channel: "krang.imu", number: 2, read: 250 * milli, captured: 50 * milli},
		line{channel: "krang.imu", number: 3, read: 260 * milli, captured: 250 * milli},
		line{channel: "imu", number: 4, read: 400 * milli, captured: 400 * milli},
	)
}

func TestPlayReportsEachGapOnce(t *testing.T) {
	path := fileOf(t,
		line{channel: "imu", number: 1, read: 0, captured: 0},
		line{channel: "cam", number: 1, read: 40 * time.Second, captured: 40 * time.Second},
		line{channel: "imu", number: 2, read: 40 * time.Second, captured: 40 * time.Second},
		line{channel: "imu", number: 3, read: 42 * time.Second, captured: 42 * time.Second},
		line{channel: "imu", number: 4, read: 47 * time.Second, captured: 47 * time.Second},
	)
	synctest.Test(t, func(t *testing.T) {
		var gaps []time.Duration
		play := Play{Dir: testDir(t), File: path, Rate: 1, OnGap: func(wait time.Duration) { gaps = append(gaps, wait) }}
		if _, err := play.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{40 * time.Second, 5 * time.Second}; !slices.Equal(gaps, want) {
			t.Errorf("gaps = %v, want %v", gaps, want)
		}
	})
}

// seen plays in virtual time, and returns the time at which each frame could be read, as in "imu 2 100ms".
func seen(t *testing.T, p Play) []string {
	t.Helper()
	var list []string
	synctest.Test(t, func(t *testing.T) {
		p.Dir = testDir(t)
		begin := time.Now()
		var work sync.WaitGroup
		work.Go(func() {
			if _, err := p.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
		readers := map[string]*localach.Reader{}
		for range 1000 {
			synctest.Wait()
			for _, name := range []string{"imu", "krang.imu"} {
				r := readers[name]
				if r == nil {
					ch, err := p.Dir.Open(name)
					if err != nil {
						continue
					}
					defer ch.Close()
					r = ch.Reader()
					readers[name] = r
				}
				b := make([]byte, 4096)
				for {
					if _, err := r.TryNextOldest(b); err != nil {
						break
					}
					list = append(list, fmt.Sprintf("%s %d %v", name, binary.LittleEndian.Uint64(b), time.Since(begin)))
				}
			}
			time.Sleep(milli)
		}
		work.Wait()
	})
	return list
}

func TestPlayPutsFramesAtCaptureTimes(t *testing.T) {
	want := []string{"imu 1 0s", "krang.imu 1 10ms", "krang.imu 2 50ms", "imu 2 100ms", "imu 3 200ms", "krang.imu 3 250ms", "imu 4 400ms"}
	if got := seen(t, Play{File: twoChannels(t), Rate: 1}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPlayAsRecordedPutsFramesAtReadTimes(t *testing.T) {
	want := []string{"imu 1 0s", "krang.imu 1 40ms", "imu 2 100ms", "imu 3 200ms", "krang.imu 2 250ms", "krang.imu 3 260ms", "imu 4 400ms"}
	if got := seen(t, Play{File: twoChannels(t), Rate: 1, AsRecorded: true}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPlayRateScalesTimes(t *testing.T) {
	want := []string{"imu 1 0s", "krang.imu 1 5ms", "krang.imu 2 25ms", "imu 2 50ms", "imu 3 100ms", "krang.imu 3 125ms", "imu 4 200ms"}
	if got := seen(t, Play{File: twoChannels(t), Rate: 2}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A frame that had been in its ring for an hour when the recording began does not make the
// player wait for an hour. Frames of a channel keep their order.
func TestFrameOlderThanRecordingIsPutAtOnce(t *testing.T) {
	path := fileOf(t,
		line{channel: "krang.imu", number: 1, read: time.Hour, captured: 0},
		line{channel: "imu", number: 1, read: time.Hour + 10*milli, captured: time.Hour + 10*milli},
		line{channel: "krang.imu", number: 2, read: time.Hour + 30*milli, captured: time.Hour + 25*milli},
		line{channel: "krang.imu", number: 3, read: time.Hour + 40*milli, captured: time.Hour + 24*milli},
	)
	want := []string{"krang.imu 1 0s", "imu 1 10ms", "krang.imu 2 25ms", "krang.imu 3 25ms"}
	if got := seen(t, Play{File: path, Rate: 1}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The age that a frame had when it was recorded does not count as lateness of the player.
func TestFrameOlderThanRecordingIsNotLate(t *testing.T) {
	path := fileOf(t,
		line{channel: "map", number: 1, read: time.Hour, captured: 0},
		line{channel: "imu", number: 1, read: time.Hour + 10*milli, captured: time.Hour + 10*milli},
	)
	if played, err := (Play{Dir: testDir(t), File: path, Rate: 1}).Run(t.Context()); err != nil || played.Late > time.Minute {
		t.Errorf("got %+v, %v, want no late frame", played, err)
	}
}

// The player must not put frames into a new channel with the name of the removed one. It returns an error.
func TestPlayEndsWhenChannelIsRemoved(t *testing.T) {
	path := fileOf(t, line{channel: "imu", number: 1}, line{channel: "imu", number: 2, read: 2000 * milli, captured: 2000 * milli})
	synctest.Test(t, func(t *testing.T) {
		dir := testDir(t)
		time.AfterFunc(1000*milli, func() { _ = dir.Unlink("imu") })
		if _, err := (Play{Dir: dir, File: path, Rate: 1}).Run(t.Context()); !errors.Is(err, localach.ErrUnlinked) {
			t.Errorf("got %v, want %v", err, localach.ErrUnlinked)
		}
	})
}

func TestPlayCreatesChannelsWithRecordedGeometry(t *testing.T) {
	dir := testDir(t)
	path := fileOf(t, line{channel: "cam", number: 1, frames: 4, size: 10_000}, line{channel: "imu", number: 1})
	played, err := Play{Dir: dir, File: path, Rate: 1, Patterns: []string{"c*"}, Remap: map[string]string{"cam": "eye"}}.Run(t.Context())
	if err != nil || played.Frames != 1 || played.Channels != 1 || !played.Complete {
		t.Errorf("got %+v, %v", played, err)
	}
	list, err := dir.List()
	if err != nil || len(list) != 1 || list[0].Name != "eye" {
		t.Fatalf("got %+v, %v, want one channel", list, err)
	}
	if g := list[0].Geometry; g.FrameCount != 4 || g.FrameSize < 10_000 || g.FrameSize > 10_100 || list[0].Mode != 0o660 {
		t.Errorf("got %v with mode %v", g, list[0].Mode)
	}
}

func TestPlayErrorNamesTheProblem(t *testing.T) {
	dir := testDir(t)
	create(t, dir, "small", 16, 32)
	feedMirror(t, dir, "krang.imu")
	path := fileOf(t, line{channel: "cam", number: 1, len: 64}, line{channel: "imu", number: 1})
	for name, c := range map[string]struct {
		play Play
		is   error
		text string
	}{
		"small frames":   {Play{Rate: 1, Remap: map[string]string{"cam": "small"}}, ErrSmall, "one of those recorded 64"},
		"a mirror":       {Play{Rate: 1, Remap: map[string]string{"cam": "krang.imu"}}, ErrMirror, "channel krang.imu"},
		"no match":       {Play{Rate: 1, Patterns: []string{"x*"}}, ErrNothing, path},
		"a bad name":     {Play{Rate: 1, Remap: map[string]string{"cam": "a/b"}}, localach.ErrName, "a/b"},
		"two into one":   {Play{Rate: 1, Remap: map[string]string{"cam": "x", "imu": "x"}}, nil, "cannot both be put into x"},
		"over another's": {Play{Rate: 1, Remap: map[string]string{"cam": "imu"}}, nil, "goes there too"},
	} {
		c.play.Dir, c.play.File = dir, path
		_, err := c.play.Run(t.Context())
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want %q", name, err, c.text)
		}
	}
}

func TestTruncatedFileIsPlayedUpToLastChunk(t *testing.T) {
	path, chunks := written(t, 20)
	if err := os.Truncate(path, chunks[3]+10); err != nil {
		t.Fatal(err)
	}
	played, err := Play{Dir: testDir(t), File: path, Rate: 100}.Run(t.Context())
	if err != nil || played.Frames != 8 || played.Complete {
		t.Errorf("got %+v, %v, want 8 frames of a file that is not complete", played, err)
	}
}
