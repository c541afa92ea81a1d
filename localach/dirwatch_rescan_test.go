package localach

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
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
	w := newDirWatch(d, func(e Event) { got = append(got, e) })
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

	want := []Event{{Kind: Vanished, Name: "gone"}, {Kind: Appeared, Name: "new"}, {Kind: Replaced, Name: "renewed"}}
	if got := rescan(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := rescan(); len(got) != 0 {
		t.Errorf("nothing changed: got %v", got)
	}
}

// Whoever has the kernel drop events, time and again, does not hide what others make.
func TestAnOverflowHasTheOwnersTakeTurns(t *testing.T) {
	var got []Event
	w := newDirWatch(tempDir(t), func(e Event) { got = append(got, e) })
	for i := range 300 {
		name := fmt.Sprintf("a%d", i) // before all others in order
		if err := os.WriteFile(w.dir.Path(name), make([]byte, headerBytes), 0o666); err != nil {
			t.Fatal(err)
		}
		w.admit(name, 65534)
	}
	if err := w.rescan(time.Now()); err != nil {
		t.Fatal(err)
	}
	c, err := w.dir.Create("imu", CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	for range 3 { // one after the other, before there was time for many looks
		if err := w.failed(fsnotify.ErrEventOverflow); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 0 {
		t.Fatalf("got %v: everything was looked at before what came meanwhile was heard", got)
	}
	for range 3 {
		w.queue.run(time.Now(), w.look)
	}
	if want := []Event{{Kind: Appeared, Name: "imu"}}; !slices.Equal(got, want) {
		t.Errorf("got %v after three looks, want %v", got, want)
	}
}

// unready is a watch of a directory of its own, and a file there that is no channel.
func unready(t *testing.T, size int) (*dirWatch, string) {
	t.Helper()
	w := newDirWatch(tempDir(t), func(e Event) { t.Errorf("got %v", e) })
	path := w.dir.Path("imu")
	if err := os.WriteFile(path, make([]byte, size), 0o666); err != nil {
		t.Fatal(err)
	}
	return w, path
}

// pauses runs what is due from one time to another, and returns the times between.
func (w *dirWatch) pauses(from time.Time, wait time.Duration) (list []time.Duration) {
	for now := from; ; {
		next, ok := w.queue.next()
		if !ok || next.Sub(from) > wait {
			return list
		}
		list = append(list, next.Sub(now))
		now = next
		w.queue.run(now, w.look)
	}
}

func TestAnIncompleteFileIsLookedAtLessAndLessOften(t *testing.T) {
	w, path := unready(t, 4096)
	begin := time.Now()
	if err := w.rescan(begin); err != nil {
		t.Fatal(err)
	}

	fresh := w.pauses(begin, freshFor)
	if fresh[0] != retryFirst || fresh[len(fresh)-1] != retryLast || !slices.IsSorted(fresh) {
		t.Errorf("while it is fresh: got pauses %v, want from %v rising to %v", fresh, retryFirst, retryLast)
	}
	old := w.pauses(begin.Add(freshFor+retryLast), 10*retryOld)
	if len(old) < 8 || slices.Max(old[1:]) != retryOld || slices.Min(old[1:]) != retryOld {
		t.Errorf("later: got pauses %v, want %v", old, retryOld)
	}

	if err := os.Chtimes(path, begin, begin); err != nil {
		t.Fatal(err)
	}
	again := begin.Add(time.Hour)
	w.noticed("imu", again)
	w.queue.run(again, w.look)
	if fresh := w.pauses(again, freshFor/2); fresh[0] != retryFirst {
		t.Errorf("after a change: got pauses %v, want them from %v again", fresh, retryFirst)
	}
}

// A file that is shorter than a header has to change its size before it can be a channel.
func TestFileTooShortForAChannelIsNotLookedAtUntilItChanges(t *testing.T) {
	w, path := unready(t, headerBytes-1)
	if err := w.rescan(time.Now()); err != nil {
		t.Fatal(err)
	}
	if next, ok := w.queue.next(); ok {
		t.Errorf("it is to be looked at at %v", next)
	}
	if err := os.Truncate(path, headerBytes); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	w.noticed("imu", now)
	w.queue.run(now, w.look)
	if _, ok := w.queue.next(); !ok {
		t.Error("it is long enough now, and nobody looks")
	}
}

// Files of one user keep nobody's from being seen, nor his own that has just changed.
func TestTheNewestFileOfEveryOwnerIsLookedAtFirst(t *testing.T) {
	q := newLookQueue()
	begin := time.Now()
	file := func(name string, owner uint32) *known {
		k := &known{name: name, wait: wait{owner: owner}}
		q.count(k)
		return k
	}
	const evil, honest = 1001, 1000
	for i := range 1000 {
		q.hurry(file("evil", evil), begin.Add(time.Duration(i)*time.Millisecond))
	}
	now := begin.Add(time.Minute)
	q.sleep(file("sleeper", honest), begin.Add(time.Second))
	q.hurry(file("newest", evil), now)
	q.hurry(file("imu", honest), now)
	var got []string
	for range 5 {
		q.run(now, func(k *known, _ time.Time) { got = append(got, k.name) })
	}
	if want := []string{"newest", "imu", "evil", "sleeper", "evil"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNamesOfTheOwnerWithMostAreForgottenFirst(t *testing.T) {
	var got []Event
	w := newDirWatch(tempDir(t), func(e Event) { got = append(got, e) })
	const evil, honest = 1001, 1000
	for i := range maxKnown {
		w.admit(fmt.Sprint("evil", i), evil).reported = i == 0
	}
	if w.admit("more", evil) != nil {
		t.Error("the owner with most got room for one more")
	}
	if w.admit("imu", honest) == nil {
		t.Error("another owner got no room")
	}
	if len(w.known) != maxKnown {
		t.Errorf("got %d names, want %d", len(w.known), maxKnown)
	}
	if len(got) > 1 {
		t.Errorf("got %v, want one forgotten at most", got)
	}
}
