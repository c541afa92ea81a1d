package localach

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// unready returns a watch of a private directory, and a file there that is not a channel.
func unready(t *testing.T, size int) (*dirWatch, string) {
	t.Helper()
	w := newDirWatch(tempDir(t), func(e Event) { t.Errorf("got %v", e) })
	path := w.dir.Path("imu")
	if err := os.WriteFile(path, make([]byte, size), 0o666); err != nil {
		t.Fatal(err)
	}
	return w, path
}

// runDue runs all checks that are due between two times, and returns the pauses between them.
func (w *dirWatch) runDue(from time.Time, wait time.Duration) (list []time.Duration) {
	for now := from; ; {
		next, ok := w.queue.next()
		if !ok || next.Sub(from) > wait {
			return list
		}
		list = append(list, next.Sub(now))
		now = next
		w.queue.run(now, w.check)
	}
}

func TestIncompleteFileIsCheckedLessAndLessOften(t *testing.T) {
	w, path := unready(t, 4096)
	begin := time.Now()
	if err := w.rescan(begin); err != nil {
		t.Fatal(err)
	}

	fresh := w.runDue(begin, retryFastFor)
	if fresh[0] != retryFirst || fresh[len(fresh)-1] != retryLast || !slices.IsSorted(fresh) {
		t.Errorf("while it is fresh: got pauses %v, want from %v rising to %v", fresh, retryFirst, retryLast)
	}
	old := w.runDue(begin.Add(retryFastFor+retryLast), 10*retryOld)
	if len(old) < 8 || slices.Max(old[1:]) != retryOld || slices.Min(old[1:]) != retryOld {
		t.Errorf("later: got pauses %v, want %v", old, retryOld)
	}

	if err := os.Chtimes(path, begin, begin); err != nil {
		t.Fatal(err)
	}
	again := begin.Add(time.Hour)
	w.queueCheck("imu", again)
	w.queue.run(again, w.check)
	if fresh := w.runDue(again, retryFastFor/2); fresh[0] != retryFirst {
		t.Errorf("after a change: got pauses %v, want them from %v again", fresh, retryFirst)
	}
}

// A file that is shorter than a header must change its size before it can be a channel.
func TestTooShortFileIsNotCheckedUntilItChanges(t *testing.T) {
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
	w.queueCheck("imu", now)
	w.queue.run(now, w.check)
	if _, ok := w.queue.next(); !ok {
		t.Error("it is long enough now, and nobody looks")
	}
}

// Files that change all the time must not prevent checks of other files.
func TestCheckQueueChecksFilesInTurn(t *testing.T) {
	var q checkQueue
	var got []string
	busy1, busy2, imu := &watchedName{name: "busy1"}, &watchedName{name: "busy2"}, &watchedName{name: "imu"}
	now := time.Now()
	for range 3 {
		q.makeDue(busy1)
		q.makeDue(busy2)
		q.makeDue(imu)
		q.makeDue(busy1)
		q.run(now, func(k *watchedName, _ time.Time) { got = append(got, k.name) })
	}
	if want := []string{"busy1", "busy2", "imu"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNamesAboveLimitAreOmittedUntilThereIsRoom(t *testing.T) {
	var got []Event
	w := newDirWatch(tempDir(t), func(e Event) { got = append(got, e) })
	for i := range maxKnown - 1 {
		name := fmt.Sprint("junk", i)
		w.names[name] = &watchedName{name: name}
	}
	for _, name := range []string{"first", "second"} {
		c, err := w.dir.Create(name, CreateConfig{})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		w.queueCheck(name, time.Now())
	}
	w.queue.run(time.Now(), w.check)
	want := []Event{{Kind: Omitted, Name: "second"}, {Kind: Appeared, Name: "first"}}
	if !slices.Equal(got, want) || len(w.names) != maxKnown {
		t.Errorf("got %v and %d names, want %v and %d", got, len(w.names), want, maxKnown)
	}
	for name := range w.names {
		if name != "first" {
			delete(w.names, name)
		}
	}
	got = nil
	if err := w.poll(time.Now()); err != nil {
		t.Fatal(err)
	}
	for w.queue.run(time.Now(), w.check) {
	}
	if want := []Event{{Kind: Appeared, Name: "second"}}; !slices.Equal(got, want) {
		t.Errorf("with room again: got %v, want %v", got, want)
	}
}
