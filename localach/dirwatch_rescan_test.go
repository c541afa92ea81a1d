package localach

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

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

// Files that change all the time do not keep others from being checked.
func TestLookQueueChecksFilesInTurn(t *testing.T) {
	var q lookQueue
	var got []string
	busy1, busy2, imu := &known{name: "busy1"}, &known{name: "busy2"}, &known{name: "imu"}
	now := time.Now()
	for range 3 {
		q.rouse(busy1)
		q.rouse(busy2)
		q.rouse(imu)
		q.rouse(busy1)
		q.run(now, func(k *known, _ time.Time) { got = append(got, k.name) })
	}
	if want := []string{"busy1", "busy2", "imu"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNameAboveTheLimitIsOmittedUntilThereIsRoom(t *testing.T) {
	var got []Event
	w := newDirWatch(tempDir(t), func(e Event) { got = append(got, e) })
	for i := range maxKnown - 1 {
		name := fmt.Sprint("junk", i)
		w.known[name] = &known{name: name}
	}
	for _, name := range []string{"first", "second"} {
		c, err := w.dir.Create(name, CreateConfig{})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		w.noticed(name, time.Now())
	}
	w.queue.run(time.Now(), w.look)
	want := []Event{{Kind: Omitted, Name: "second"}, {Kind: Appeared, Name: "first"}}
	if !slices.Equal(got, want) || len(w.known) != maxKnown {
		t.Errorf("got %v and %d names, want %v and %d", got, len(w.known), want, maxKnown)
	}
	for name := range w.known {
		if name != "first" {
			delete(w.known, name)
		}
	}
	got = nil
	if err := w.poll(time.Now()); err != nil {
		t.Fatal(err)
	}
	for w.queue.run(time.Now(), w.look) {
	}
	if want := []Event{{Kind: Appeared, Name: "second"}}; !slices.Equal(got, want) {
		t.Errorf("with room again: got %v, want %v", got, want)
	}
}
