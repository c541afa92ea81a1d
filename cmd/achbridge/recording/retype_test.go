package recording

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/bridge/status"
	"achbridge/testnet/await"
)

// originTypes is an origin that sends the layout of its channel to the daemon.
type originTypes struct {
	mu       sync.Mutex
	hash     string
	kind     *Type
	err      error
	requests int
}

func (o *originTypes) set(hash string, kind *Type, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hash, o.kind, o.err = hash, kind, err
}

func (o *originTypes) mirrors(context.Context) ([]status.Mirror, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return []status.Mirror{{Host: "robot", Channel: "imu", Name: "imu", TypeHash: o.hash}}, nil
}

func (o *originTypes) typeOf(context.Context, string) (*Type, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
	return o.kind, o.err
}

// The mirror of a former daemon is there before the new daemon has linked with its origin. Until then the daemon knows
// neither the mirror nor a layout.
func TestRecordingUsesLayoutOfLateMirror(t *testing.T) {
	t.Parallel() // the test waits for seconds
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	imu := mirrorOf(t, dir, "imu")
	kind := imuType(t)
	robot := &originTypes{}
	linked := make(chan struct{})
	record(t, Config{Dir: dir, Files: Files{Path: path}, OriginType: robot.typeOf, Mirrors: func(ctx context.Context) ([]status.Mirror, error) {
		select {
		case <-linked:
			return robot.mirrors(ctx)
		default:
			return nil, nil
		}
	}})
	imu.puts("sixteen bytes, 1")
	there(t, path, "imu", 1)
	robot.set("1", kind, nil)
	close(linked)
	frames := 1
	await.True(t, "a frame with the layout", func() bool {
		imu.puts("sixteen bytes, 1")
		frames++
		there(t, path, "imu", frames)
		list, _ := all(t, path)
		last := list[len(list)-1]
		return last.Topic != nil && last.Topic.Type != nil
	})
}

func TestRecordingUsesChangedLayoutOfOrigin(t *testing.T) {
	t.Parallel() // the test waits for seconds
	dir, path := testDir(t), filepath.Join(t.TempDir(), "run.mcap")
	imu := mirrorOf(t, dir, "imu")
	first := imuType(t)
	later, err := NewType(&layout.Layout{Name: "later", Size: 16, Fields: []layout.Field{{Name: "x", Type: layout.Double}}}, status.TypeFromOrigin)
	if err != nil {
		t.Fatal(err)
	}
	first.From = status.TypeFromOrigin
	again := *first
	robot := &originTypes{}
	robot.set("1", first, nil)
	var mu sync.Mutex
	var notes []string
	end := record(t, Config{Dir: dir, Files: Files{Path: path}, Mirrors: robot.mirrors, OriginType: robot.typeOf, Note: func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		notes = append(notes, fmt.Sprintf(format, args...))
	}})
	frames := 0
	// until puts frames until one is recorded with the layout want. Empty means without a layout.
	until := func(want string) {
		t.Helper()
		await.True(t, "a frame of type "+want, func() bool {
			imu.puts("sixteen bytes, 1")
			frames++
			there(t, path, "imu", frames)
			list, _ := all(t, path)
			last := list[len(list)-1]
			got := ""
			if last.Topic != nil && last.Topic.Type != nil {
				got = last.Topic.Type.Name
			}
			return got == want
		})
	}
	until("achbridge/imu")
	robot.set("2", later, nil)
	until("achbridge/later")
	robot.set("3", nil, errors.New("it does not answer"))
	until("")
	robot.set("", nil, nil) // the daemon has no link, for example
	robot.set("1", &again, nil)
	until("achbridge/imu")
	report, err := end()
	if err != nil {
		t.Fatal(err)
	}
	if report.Missed != 0 || int(report.Frames) != frames {
		t.Errorf("got %+v, want all of %d frames", report, frames)
	}
	s, err := Summarize(path)
	if err != nil || len(s.Channels) != 1 || s.Channels[0].Mismatches != 0 {
		t.Errorf("got %+v, %v, want no mismatch", s.Channels, err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"imu: its frames have another type from now on: achbridge/later", "imu is recorded without its type: it does not answer"} {
		if n := len(slices.DeleteFunc(slices.Clone(notes), func(s string) bool { return s != want })); n != 1 {
			t.Errorf("got note %q %d times, want once: %s", want, n, strings.Join(notes, "; "))
		}
	}
}
