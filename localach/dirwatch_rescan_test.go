package localach

import (
	"os"
	"slices"
	"testing"
	"time"
)

// What inotify dropped when its queue ran over is found by looking at everything.
func TestRescanFindsWhatWasMissed(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "localach-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d := Dir(dir)
	create := func(name string) {
		c, err := d.Create(name, CreateConfig{Replace: true})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	var got []Event
	w := dirWatch{dir: d, known: map[string]known{}, report: func(e Event) { got = append(got, e) }}
	create("gone")
	create("kept")
	create("renewed")
	rescan := func() []Event {
		got = nil
		if err := w.rescan(time.Now()); err != nil {
			t.Fatal(err)
		}
		return got
	}
	rescan()

	if err := d.Unlink("gone"); err != nil {
		t.Fatal(err)
	}
	create("renewed")
	create("new")

	want := []Event{{Vanished, "gone"}, {Appeared, "new"}, {Replaced, "renewed"}}
	if got := rescan(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := rescan(); len(got) != 0 {
		t.Errorf("nothing changed: got %v", got)
	}
}

func TestAnIncompleteFileIsLookedAtLessAndLessOften(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "localach-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	w := dirWatch{dir: Dir(dir), known: map[string]known{}, report: func(e Event) { t.Errorf("got %v", e) }}
	path := w.dir.Path("imu")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}

	now := time.Now()
	var pauses []time.Duration
	w.look("imu", now)
	for range 12 {
		next, ok := w.nextRetry()
		if !ok {
			t.Fatal("no retry for an incomplete file")
		}
		pauses = append(pauses, next.Sub(now))
		now = next
		w.retryDue(now)
	}

	if pauses[0] != retryFirst || pauses[len(pauses)-1] != retryLast || !slices.IsSorted(pauses) {
		t.Errorf("got pauses %v, want from %v rising to %v", pauses, retryFirst, retryLast)
	}
}
