package recording

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/foxglove/mcap/go/mcap"

	"achbridge/cmd/achbridge/config"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// Snapshots are taken while two channels are written. Each has consecutive frames, and the library of the mcap tools reads
// it.
func TestSnapshotsUnderLoadAreWholeFiles(t *testing.T) {
	dir := testDir(t)
	channels := []*source{create(t, dir, "imu", 4096, 16), create(t, dir, "arm", 4096, 16)}
	f, err := NewMemoryRecorder(MemoryConfig{
		Config: Config{Dir: dir, Host: "host"}, Folder: t.TempDir(), Facts: map[string]string{"host": "host"},
		Rules: config.Recorder{Keep: 2 * time.Second, Memory: 64 << 20, Quota: 64 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, written := make(chan error, 1), make(chan struct{})
	go func() { ended <- f.Run(ctx) }()
	go func() {
		defer close(written)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for n := uint64(1); ctx.Err() == nil; n++ {
			for _, c := range channels {
				c.put(n)
			}
			<-tick.C
		}
	}()
	defer func() {
		cancel()
		<-written
		if err := await.Receive(t, "the end of the recorder", ended); err != nil {
			t.Error(err)
		}
	}()
	await.True(t, "some frames in memory", func() bool { return f.Status().Frames > 200 })
	total := uint64(0)
	for range need.LongOr(1000, 10) {
		var file bytes.Buffer
		s, err := f.Snapshot(ctx, &file, 500*time.Millisecond, 0)
		if err != nil || s.Lost != 0 {
			t.Fatalf("Snapshot = %+v, %v", s, err)
		}
		total += s.Frames
		checkSnapshot(t, file.Bytes(), s)
	}
	if total == 0 {
		t.Error("no snapshot has a frame")
	}
}

// checkSnapshot reads a snapshot with the mcap library and with the Reader of this package.
func checkSnapshot(t *testing.T, file []byte, s Snapshot) {
	t.Helper()
	r, err := mcap.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	info, err := r.Info()
	if err != nil || info.Statistics.MessageCount != s.Frames {
		t.Fatalf("the library finds %+v, %v, want %d frames", info, err, s.Frames)
	}
	messages, err := r.Messages() // they are found through the index
	if err != nil {
		t.Fatal(err)
	}
	count := uint64(0)
	for {
		if _, _, _, err := messages.NextInto(nil); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		count++
	}
	path := filepath.Join(t.TempDir(), "snapshot.mcap")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	list, whole := all(t, path)
	if !whole || count != s.Frames {
		t.Errorf("read %d frames, complete %v, want %d", count, whole, s.Frames)
	}
	for _, channel := range []string{"imu", "arm"} {
		got := numbers(list, channel)
		for i := range got {
			if got[i] != got[0]+uint64(i) {
				t.Fatalf("%s: frame %d follows %d", channel, got[i], got[i-1])
			}
		}
	}
}
