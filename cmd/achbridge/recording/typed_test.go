package recording

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"achbridge/bridge/status"
	"achbridge/localach"
)

// mirrorOf makes a channel with the tag of a mirror.
func mirrorOf(t *testing.T, dir localach.Dir, name string) *source {
	t.Helper()
	s := create(t, dir, name, 16, 64)
	if err := s.ch.SetTag(localach.Tag{Node: [16]byte{1}, Channel: 1}, 0); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *source) puts(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if _, err := s.w.Put([]byte(text)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// The answers of origins take time. Meanwhile other channels are recorded, and no frame is missed.
func TestFramesWaitForLayoutOfOrigin(t *testing.T) {
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	kind := imuType(t)
	kind.From = status.TypeFromOrigin
	const mirrors = 20
	for i := range mirrors {
		mirrorOf(t, dir, fmt.Sprint("m", i)).puts("sixteen bytes, 0")
	}
	imu := mirrorOf(t, dir, "imu")
	imu.puts("sixteen bytes, 0")
	var mu sync.Mutex
	asking, most := 0, 0
	requests := make(chan string, mirrors+1)
	told := make(chan struct{})
	end := record(t, Config{Dir: dir, Files: Files{Path: path}, OriginType: func(ctx context.Context, name string) (*Type, error) {
		mu.Lock()
		asking++
		most = max(most, asking)
		mu.Unlock()
		requests <- name
		<-told
		mu.Lock()
		asking--
		mu.Unlock()
		switch name {
		case "m0":
			return nil, errors.New("it does not answer")
		case "m1":
			return nil, nil
		}
		return kind, nil
	}})
	for range maxAsked {
		<-requests
	}
	create(t, dir, "other", 16, 64).put(1)
	there(t, path, "other", 1) // the recording of the mirrors, which existed before other, has begun too
	imu.puts("sixteen bytes, 1", "sixteen bytes, 2")
	close(told)
	there(t, path, "imu", 3)
	for i := range mirrors {
		there(t, path, fmt.Sprint("m", i), 1)
	}
	if _, err := end(); err != nil {
		t.Fatal(err)
	}
	if most > maxAsked {
		t.Errorf("got %d requests to origins at the same time, want at most %d", most, maxAsked)
	}
	s := summary(t, path)
	for _, c := range s.Channels {
		from := status.TypeFromOrigin
		if c.Channel == "m0" || c.Channel == "m1" || c.Channel == "other" {
			from = ""
		}
		if c.TypeFrom != from || c.Mismatches != 0 || c.Missed != 0 {
			t.Errorf("got %+v, want the layout of %q", c, from)
		}
	}
}

// A recording contains all frames even if it ends before the layout arrives.
func TestRecordingEndsDuringLayoutRequest(t *testing.T) {
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	imu := mirrorOf(t, dir, "imu")
	requests := make(chan struct{})
	var notes []string
	end := record(t, Config{Dir: dir, Files: Files{Path: path}, OriginType: func(ctx context.Context, _ string) (*Type, error) {
		close(requests)
		<-ctx.Done()
		return nil, ctx.Err()
	}, Note: func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }})
	<-requests
	imu.puts("sixteen bytes, 1", "sixteen bytes, 2")
	if _, err := end(); err != nil {
		t.Fatal(err)
	}
	s := summary(t, path)
	if len(s.Channels) != 1 || s.Channels[0].Frames != 2 || s.Channels[0].Type != "" {
		t.Errorf("got %+v, want both frames without a layout", s.Channels)
	}
	if text := strings.Join(notes, "; "); strings.Contains(text, "canceled") {
		t.Errorf("got notes %q", text)

	}
}
