package localach

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// kernel is a folder as /proc/self/task.
type kernel struct {
	*testing.T
	dir string
}

func newKernel(t *testing.T, threads int) kernel {
	k := kernel{t, t.TempDir()}
	for i := range threads {
		if err := os.Mkdir(filepath.Join(k.dir, fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
		k.waited(i, 100*time.Microsecond)
	}
	return k
}

// waited sets for how long a thread has waited in all.
func (k kernel) waited(thread int, d time.Duration) {
	k.Helper()
	text := fmt.Sprintf("%d %d %d\n", 12345, d, 7)
	if err := os.WriteFile(filepath.Join(k.dir, fmt.Sprint(thread), "schedstat"), []byte(text), 0o644); err != nil {
		k.Fatal(err)
	}
}

func TestRunDelayIsThatOfAllThreads(t *testing.T) {
	k := newKernel(t, 3)
	r := runDelay{schedstat: schedstat{dir: k.dir}}
	at := time.Duration(0)
	next := func() bool { at += reviewEvery; return r.grew(at) }
	for range 3 {
		if next() {
			t.Error("got a delay where nothing has waited")
		}
	}
	k.waited(2, 600*time.Microsecond)
	if next() {
		t.Error("got a delay for a 100th of the time")
	}
	k.waited(1, 3*time.Millisecond)
	if !next() {
		t.Error("got no delay for a 17th of the time")
	}
	if next() {
		t.Error("got a delay that was told before")
	}
	if other := (runDelay{schedstat: schedstat{dir: t.TempDir()}}); !other.grew(time.Second) {
		t.Error("got no delay where the kernel tells none: it cannot be known")
	}
}

// foresee is a watcher with channels of which the periods are known, and a window each at the next review.
func foresee(t *testing.T, k kernel, periods ...time.Duration) *Watcher {
	t.Helper()
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.timer.close)
	w.foresight.budget, w.foresight.delay.dir = DefaultWatchBudget, k.dir
	for _, p := range periods {
		w.slots = append(w.slots, slot{window: window{from: time.Hour, to: time.Hour}})
		w.notices = append(w.notices, &Notice{phase: phase{period: p}})
	}
	return w
}

func (w *Watcher) windows() (count int) {
	for i := range w.slots {
		if w.slots[i].foreseen() {
			count++
		}
	}
	return count
}

func TestNoWindowsForASecondAfterTheKernelLetUsWait(t *testing.T) {
	k := newKernel(t, 1)
	w := foresee(t, k, time.Millisecond)
	w.plan(time.Second)
	if w.windows() != 1 {
		t.Fatal("got no window on an idle machine")
	}
	k.waited(0, 10*time.Millisecond)
	w.plan(time.Second + reviewEvery)
	if w.windows() != 0 {
		t.Error("got a window although the kernel let us wait")
	}
	if blind := w.foresight.blind; !blind(2*time.Second) || blind(2*time.Second+reviewEvery) {
		t.Error("windows are left out for other than a second")
	}
}

func TestWindowsCostNoMoreThanTheBudget(t *testing.T) {
	var periods []time.Duration
	for range 500 {
		periods = append(periods, 10*time.Millisecond)
	}
	w := foresee(t, newKernel(t, 1), append(periods, time.Millisecond, time.Second)...)
	w.plan(time.Second)
	cost := 0.0
	for _, n := range w.notices {
		if n.planned {
			cost += n.phase.cost()
		}
	}
	if cost > DefaultWatchBudget || cost < 0.9*DefaultWatchBudget {
		t.Errorf("got windows that cost %.3f of a processor, want close to %v", cost, DefaultWatchBudget)
	}
	if !w.notices[501].planned || w.notices[500].planned {
		t.Error("want a window for the slowest channel, which costs least, and none for the fastest")
	}
	if f := w.Foresight(); f.Budget != DefaultWatchBudget || f.Resting {
		t.Errorf("got %+v, want the budget, and no rest", f)
	}
	w.foresight.blindTo = time.Hour
	if !w.Foresight().Resting {
		t.Error("got no word of the rest")
	}
	w.foresight.budget, w.foresight.blindTo = 0, 0
	if w.plan(time.Second + reviewEvery); w.windows() != 0 {
		t.Error("got windows without a budget")
	}
}

// A channel is no longer watched while all others have a window: the loop goes on.
func TestLoopGoesOnWhenOnlyForeseenChannelsAreLeft(t *testing.T) {
	w := foresee(t, newKernel(t, 1), time.Millisecond)
	w.slots[0].lastSeq = new(uint64)
	w.rearm()
	woken := make(chan error, 1)
	go func() { woken <- w.timer.wait() }()
	select {
	case err := <-woken:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the timer was stopped though a channel is watched")
	}
}
