package localach_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// watchDir collects the events of a directory until the test ends.
func watchDir(t *testing.T, d localach.Dir) <-chan localach.Event {
	t.Helper()
	events, ended := make(chan localach.Event, 10000), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- d.Watch(ctx, func(e localach.Event) { events <- e }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch: got %v, want context.Canceled", err)
		}
	})
	return events
}

// wantEvents checks the next events.
func wantEvents(t *testing.T, events <-chan localach.Event, want ...localach.Event) {
	t.Helper()
	for _, w := range want {
		if got := await.Receive(t, w.Kind.String()+" "+w.Name, events); got != w {
			t.Fatalf("got %v, want %v", got, w)
		}
	}
}

// wantNoEvents checks that the next event is one that it causes itself.
func wantNoEvents(t *testing.T, d localach.Dir, events <-chan localach.Event) {
	t.Helper()
	createIn(t, d, "zz-last", 4, 64)
	wantEvents(t, events, localach.Event{Kind: localach.Appeared, Name: "zz-last"})
}

func TestWatchReportsExistingThenChanges(t *testing.T) {
	d := privateDir(t)
	createIn(t, d, "joints", 4, 64)
	createIn(t, d, "imu", 4, 64)
	events := watchDir(t, d)
	wantEvents(t, events, localach.Event{Kind: localach.Appeared, Name: "imu"}, localach.Event{Kind: localach.Appeared, Name: "joints"})

	createIn(t, d, "camera", 4, 64)
	wantEvents(t, events, localach.Event{Kind: localach.Appeared, Name: "camera"})
	if err := d.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, events, localach.Event{Kind: localach.Vanished, Name: "imu"})
	createIn(t, d, "imu", 4, 64)
	wantEvents(t, events, localach.Event{Kind: localach.Appeared, Name: "imu"})
}

func TestWatchReportsReplacedFile(t *testing.T) {
	d := privateDir(t)
	createIn(t, d, "imu", 4, 64)
	events := watchDir(t, d)
	wantEvents(t, events, localach.Event{Kind: localach.Appeared, Name: "imu"})

	c, err := d.Create("imu", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 8, FrameSize: 64}, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	wantEvents(t, events, localach.Event{Kind: localach.Replaced, Name: "imu"})
	wantNoEvents(t, d, events)
}

func TestWatchReportsChannelGrownInPlace(t *testing.T) {
	d := privateDir(t)
	createIn(t, d, "imu", 4, 64)
	events := watchDir(t, d)
	wantEvents(t, events, localach.Event{Kind: localach.Appeared, Name: "imu"})

	runPeer(t, pathOf(d, "imu"), "create", "8", "64", "in-place")
	wantEvents(t, events, localach.Event{Kind: localach.Replaced, Name: "imu"})
}

// The last step of initialising a channel again in place is a store, which causes no event of the directory.
func TestWatchReportsSlowReinitialisation(t *testing.T) {
	d := privateDir(t)
	createIn(t, d, "imu", 4, 64)
	events := watchDir(t, d)
	wantEvents(t, events, localach.Event{Kind: localach.Appeared, Name: "imu"})
	file, err := os.OpenFile(pathOf(d, "imu"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	header, err := unix.Mmap(int(file.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(header)
	magic := bytes.Clone(header)
	copy(header, make([]byte, len(magic)))
	if err := file.Truncate(1 << 16); err != nil {
		t.Fatal(err)
	}
	wantNoEvents(t, d, events)
	time.Sleep(50 * time.Millisecond) // for at least two checks
	copy(header, magic)
	wantEvents(t, events, localach.Event{Kind: localach.Replaced, Name: "imu"})
}

func TestWatchReportsChannelOfLibach(t *testing.T) {
	d := privateDir(t)
	events := watchDir(t, d)
	for range 3 {
		runPeer(t, pathOf(d, "imu"), "create", "4", "64")
		wantEvents(t, events, localach.Event{Kind: localach.Appeared, Name: "imu"})
		if err := d.Unlink("imu"); err != nil {
			t.Fatal(err)
		}
		wantEvents(t, events, localach.Event{Kind: localach.Vanished, Name: "imu"})
	}
}

func TestWatchReportsOnlyCompleteChannels(t *testing.T) {
	d, elsewhere := privateDir(t), privateDir(t)
	createIn(t, elsewhere, "imu", 4, 64)
	whole, err := os.ReadFile(pathOf(elsewhere, "imu"))
	if err != nil {
		t.Fatal(err)
	}
	events := watchDir(t, d)
	file, err := os.OpenFile(pathOf(d, "imu"), os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	wantNoEvents(t, d, events)
	if err := file.Truncate(int64(len(whole))); err != nil {
		t.Fatal(err)
	}
	if err := d.Unlink("zz-last"); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, events, localach.Event{Kind: localach.Vanished, Name: "zz-last"})
	wantNoEvents(t, d, events)

	if _, err := file.WriteAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, events, localach.Event{Kind: localach.Appeared, Name: "imu"})
}

func TestWatchIgnoresOtherFiles(t *testing.T) {
	d := privateDir(t)
	events := watchDir(t, d)
	for _, name := range []string{"sem.x", "achshm-", "achshm-.draft", ".achbridge-imu-1", "achshm-a b"} {
		if err := os.WriteFile(filepath.Join(string(d), name), make([]byte, 4096), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(pathOf(d, "dir"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pathOf(d, "garbage"), []byte("no channel at all"), 0o666); err != nil {
		t.Fatal(err)
	}
	wantNoEvents(t, d, events)
}

func TestWatchKeepsOrderOfEachName(t *testing.T) {
	d := privateDir(t)
	events := watchDir(t, d)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			c, err := d.Create("imu", localach.CreateConfig{Replace: true})
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
			if err := d.Unlink("imu"); err != nil {
				t.Error(err)
			}
		}
	}()
	<-done
	createIn(t, d, "zz-last", 4, 64)

	// Events of different names may be in any order.
	there, last := false, false
	for !last || there {
		e := await.Receive(t, "the last event of imu and zz-last", events)
		if e.Name == "zz-last" {
			last = true
			continue
		}
		if appears := e.Kind == localach.Appeared; appears == there {
			t.Fatalf("got %v while present is %v", e, there)
		}
		there = e.Kind != localach.Vanished
	}
}

// The callback is slow, so the kernel drops events. Watch must find their changes.
func TestWatchRecoversFromOverflow(t *testing.T) {
	t.Parallel()
	limit, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		need.Missing(t, "/proc/sys/fs/inotify is missing: mount -t proc proc /proc")
	}
	most, _ := strconv.Atoi(strings.TrimSpace(string(limit)))
	if most > 100_000 {
		t.Skipf("the queue holds %d events: sysctl fs.inotify.max_queued_events=16384", most)
	}
	d := privateDir(t)
	createIn(t, d, "imu", 4, 64)
	events, release := make(chan localach.Event, 100), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- d.Watch(ctx, func(e localach.Event) { events <- e; <-release })
	}()
	wantEvents(t, events, localach.Event{Kind: localach.Appeared, Name: "imu"})

	junk := filepath.Join(string(d), "junk")
	for range most/2 + 1000 { // each causes two events
		if err := os.WriteFile(junk, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(junk); err != nil {
			t.Fatal(err)
		}
	}
	createIn(t, d, "joints", 4, 64)
	if err := d.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	close(release)

	missed := map[localach.Event]bool{{Kind: localach.Vanished, Name: "imu"}: true, {Kind: localach.Appeared, Name: "joints"}: true}
	for len(missed) > 0 { // in any order
		got := await.Receive(t, "what the overflow hid", events)
		if !missed[got] {
			t.Fatalf("got %v, want one of %v", got, missed)
		}
		delete(missed, got)
	}
	cancel()
	<-ended
}

func TestWatchFailsWhenDirectoryIsRemoved(t *testing.T) {
	d := localach.Dir(filepath.Join(string(privateDir(t)), "sub"))
	if err := d.Watch(context.Background(), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: got %v, want fs.ErrNotExist", err)
	}
	if err := os.Mkdir(string(d), 0o777); err != nil {
		t.Fatal(err)
	}
	watching, ended := make(chan struct{}), make(chan error, 1)
	createIn(t, d, "imu", 4, 64).Close()
	go func() { ended <- d.Watch(context.Background(), func(e localach.Event) { watching <- struct{}{} }) }()
	<-watching
	go func() { <-watching }()
	if err := os.RemoveAll(string(d)); err != nil {
		t.Fatal(err)
	}
	if err := await.Receive(t, "the end of Watch of a directory that is gone", ended); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}
