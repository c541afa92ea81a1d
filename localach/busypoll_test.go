package localach

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/testnet/await"
)

// fakeProc is a folder like /proc/self/task, with a file like /proc/stat.
type fakeProc struct {
	*testing.T
	dir string
}

func newFakeProc(t *testing.T, threads int) fakeProc {
	k := fakeProc{t, t.TempDir()}
	for i := range threads {
		if err := os.Mkdir(filepath.Join(k.dir, fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
		k.setWait(i, 100*time.Microsecond)
	}
	k.setIdle(0, 0)
	return k
}

// setIdle sets the total idle time of two CPUs. The process may use both, but no third.
func (k fakeProc) setIdle(each ...time.Duration) {
	k.Helper()
	text := "cpu  9 9 9 99999999 9\n"
	for i, d := range append(each, time.Hour) {
		text += fmt.Sprintf("cpu%d 1 2 3 %d 5 0 7\n", i, d/idleGrain)
	}
	if err := os.WriteFile(k.stat(), []byte(text+"intr 77 8\n"), 0o644); err != nil {
		k.Fatal(err)
	}
}

func (k fakeProc) stat() string { return filepath.Join(k.dir, "stat") }

// idle returns an idleTime that reads k.
func (k fakeProc) idle() idleTime {
	i := idleTime{path: k.stat(), ownTime: func() time.Duration { return 0 }}
	i.cpus.Set(0)
	i.cpus.Set(1)
	return i
}

// plan plans windows at a time until which the CPUs were always idle.
func (k fakeProc) plan(w *Watcher, now time.Duration) {
	k.Helper()
	k.setIdle(now, now)
	w.planWindows(now)
}

// setWait sets the total wait of a thread.
func (k fakeProc) setWait(thread int, d time.Duration) {
	k.Helper()
	k.setWaitAndSlices(thread, d, 7)
}

// setWaitAndSlices sets the total wait of a thread, and how often it has run.
func (k fakeProc) setWaitAndSlices(thread int, waited time.Duration, slices int) {
	k.Helper()
	text := fmt.Sprintf("%d %d %d\n", 12345, waited, slices)
	if err := os.WriteFile(filepath.Join(k.dir, fmt.Sprint(thread), "schedstat"), []byte(text), 0o644); err != nil {
		k.Fatal(err)
	}
}

func TestRunDelaySumsAllThreads(t *testing.T) {
	k := newFakeProc(t, 3)
	r := runDelay{schedstat: schedstat{dir: k.dir}}
	at := time.Duration(0)
	next := func() bool { at += reviewEvery; return r.isHigh(at) }
	for range 3 {
		if next() {
			t.Error("got a delay where nothing has waited")
		}
	}
	k.setWait(2, 600*time.Microsecond)
	if next() {
		t.Error("got a delay for a 100th of the time")
	}
	k.setWait(1, 3*time.Millisecond)
	if !next() {
		t.Error("got no delay for a 17th of the time")
	}
	if next() {
		t.Error("got a delay that was told before")
	}
	if other := (runDelay{schedstat: schedstat{dir: t.TempDir()}}); !other.isHigh(time.Second) {
		t.Error("got no delay where the kernel tells none: it cannot be known")
	}
}

// A process that wakes up very often waits a little each time, even if no other process needs its CPU.
func TestRunDelayAllowsManyWakeUps(t *testing.T) {
	k := newFakeProc(t, 1)
	r := runDelay{schedstat: schedstat{dir: k.dir}}
	k.setWaitAndSlices(0, time.Second, 1000)
	r.isHigh(reviewEvery)
	k.setWaitAndSlices(0, time.Second+9*time.Millisecond, 1360)
	if r.isHigh(2 * reviewEvery) {
		t.Error("got a delay for 25 µs at each of 360 wake-ups")
	}
	k.setWaitAndSlices(0, time.Second+29*time.Millisecond, 1720)
	if !r.isHigh(3 * reviewEvery) {
		t.Error("got no delay for 56 µs at each of 360 wake-ups")
	}
}

// newBusyPollWatcher returns a watcher of channels with known periods, each with a window at the next review.
func newBusyPollWatcher(t *testing.T, k fakeProc, periods ...time.Duration) *Watcher {
	t.Helper()
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.timer.close)
	w.busyPoll.budget, w.busyPoll.delay.dir, w.busyPoll.idle = DefaultWatchBudget, k.dir, k.idle()
	for _, p := range periods {
		w.slots = append(w.slots, slot{window: window{from: time.Hour, to: time.Hour}})
		w.notices = append(w.notices, &Notice{phase: phase{period: p}})
	}
	return w
}

func (w *Watcher) windows() (count int) {
	for i := range w.slots {
		if w.slots[i].hasWindow() {
			count++
		}
	}
	return count
}

func TestRunDelayDisablesBusyPollingForASecond(t *testing.T) {
	k := newFakeProc(t, 1)
	w := newBusyPollWatcher(t, k, time.Millisecond)
	k.plan(w, time.Second)
	if w.windows() != 1 {
		t.Fatal("got no window on an idle machine")
	}
	k.setWait(0, 10*time.Millisecond)
	k.plan(w, time.Second+reviewEvery)
	if w.windows() != 0 {
		t.Error("got a window although the kernel let us wait")
	}
	if blind := w.busyPoll.isDisabled; !blind(2*time.Second) || blind(2*time.Second+reviewEvery) {
		t.Error("windows are left out for other than a second")
	}
}

// Programs that keep all CPUs busy do not delay us, since a thread that wakes up preempts them at once.
func TestBusyCPUsDisableBusyPolling(t *testing.T) {
	k := newFakeProc(t, 1)
	w := newBusyPollWatcher(t, k, time.Millisecond)
	var at, idle0, idle1, own time.Duration
	w.busyPoll.idle.ownTime = func() time.Duration { return own }
	const ms = time.Millisecond
	polls := func(ofIdle0, ofIdle1, ofOwn time.Duration, long time.Duration) (windows int) { // in samples of 50 ms
		for end := at + long; at < end; {
			at, idle0, idle1, own = at+reviewEvery, idle0+ofIdle0, idle1+ofIdle1, own+ofOwn
			k.setIdle(idle0, idle1)
			if w.planWindows(at); w.windows() == 0 {
				return 0
			}
		}
		return w.windows()
	}
	for _, c := range []struct{ idle0, idle1, own time.Duration }{{50 * ms, 40 * ms, 10 * ms}, {30 * ms, 20 * ms, 10 * ms}} {
		if polls(c.idle0, c.idle1, c.own, 2*time.Second) != 1 {
			t.Errorf("got no windows after %+v of %v", c, reviewEvery)
		}
	}
	if polls(0, 0, 0, reviewEvery) != 1 || polls(50*ms, 40*ms, 10*ms, time.Second) != 1 {
		t.Error("got no windows after one look at busy processors, which may be wrong")
	}
	if polls(40*ms, 0, 5*ms, 2*time.Second) != 0 {
		t.Error("got windows while others leave less than one processor")
	}
	if blind := w.busyPoll.isDisabled; !blind(at+minDisable-1) || blind(at+minDisable) {
		t.Error("windows are left out for other than a second")
	}
	if other := (idleTime{path: filepath.Join(k.dir, "none"), ownTime: ownTime}); !other.scarce(at) {
		t.Error("got idle processors where the kernel tells of none: it cannot be known")
	}
}

// A sample takes about 100 µs of CPU time, which other programs need too.
func TestBusyCPUsAreSampledRarely(t *testing.T) {
	w, asked := newBusyPollWatcher(t, newFakeProc(t, 1), time.Millisecond), 0
	w.busyPoll.idle.ownTime = func() time.Duration { asked++; return 0 }
	for at := reviewEvery; at <= 10*time.Second; at += reviewEvery {
		if w.planWindows(at); at > idleSpan && !w.busyPoll.isDisabled(at+reviewEvery-1) {
			t.Fatalf("got windows after %v", at)
		}
	}
	if asked > 2+12+int(idleSpan/reviewEvery) {
		t.Errorf("asked %d times in 10 s", asked)
	}
}

func TestIdleTimeOfThisMachine(t *testing.T) {
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.timer.close)
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &since); err != nil {
		t.Fatal(err)
	}
	most := time.Duration(since.Nano()+int64(time.Second)) * time.Duration(runtime.NumCPU())
	if idle, known := w.busyPoll.idle.read(); !known || idle <= 0 || idle > most {
		t.Errorf("got %v, known %v; want more than 0, and at most %v", idle, known, most)
	}
}

// The loop is in a window when a thread has to wait for a CPU.
func TestLoopSleepsAfterRunDelay(t *testing.T) {
	k := newFakeProc(t, 1)
	w := newBusyPollWatcher(t, k, time.Millisecond)
	w.start = time.Now().Add(-time.Hour)
	w.slots[0] = slot{lastSeq: new(uint64), period: pollSlowest, window: window{from: time.Second, to: 2 * time.Hour}}
	w.notices[0].planned = true
	idle := time.Duration(0)
	poll := func() (again bool) {
		idle += time.Minute
		k.setIdle(idle, idle)
		w.review = 0
		_, _, again = w.poll(nil)
		return again
	}
	for range 3 {
		if !poll() {
			t.Fatal("the loop sleeps in a window on an idle machine")
		}
	}
	k.setWait(0, time.Minute)
	if poll() {
		t.Error("the loop still polls without pause")
	}
	if w.tick == 0 {
		t.Error("the loop does not tick")
	}
}

func TestBusyPollingStaysWithinCPUBudget(t *testing.T) {
	var periods []time.Duration
	for range 500 {
		periods = append(periods, 10*time.Millisecond)
	}
	k := newFakeProc(t, 1)
	w := newBusyPollWatcher(t, k, append(periods, time.Millisecond, time.Second)...)
	k.plan(w, time.Second)
	cost := 0.0
	for _, n := range w.notices {
		if n.planned {
			cost += w.busyPoll.windowCost(n.phase.period)
		}
	}
	if cost > DefaultWatchBudget || cost < 0.9*DefaultWatchBudget {
		t.Errorf("got windows that cost %.3f of a processor, want close to %v", cost, DefaultWatchBudget)
	}
	if !w.notices[501].planned || w.notices[500].planned {
		t.Error("want a window for the slowest channel, which costs least, and none for the fastest")
	}
	if f := w.BusyPolling(); f.Budget != DefaultWatchBudget || f.Resting {
		t.Errorf("got %+v, want the budget, and no rest", f)
	}
	w.busyPoll.disabledUntil = time.Hour
	if !w.BusyPolling().Resting {
		t.Error("got no word of the rest")
	}
	w.busyPoll.budget, w.busyPoll.disabledUntil = 0, 0
	if k.plan(w, time.Second+reviewEvery); w.windows() != 0 {
		t.Error("got windows without a budget")
	}
}

func TestShortWindowsFitAllChannelsOfHumanoid(t *testing.T) {
	var periods []time.Duration
	for range 9 {
		periods = append(periods, 5*time.Millisecond)
	}
	w := newBusyPollWatcher(t, newFakeProc(t, 1), periods...)
	at := time.Duration(0)
	for range 100 { // 12 µs of busy polling each time
		at += 5 * time.Millisecond
		w.busyPoll.sleep(at, at, true)
		w.busyPoll.sleep(at+12*time.Microsecond, at+time.Millisecond, true)
	}
	w.planWindows(at)
	for i, n := range w.notices {
		if !n.planned {
			t.Errorf("channel %d gets no window", i)
		}
	}
}

// A poll for one channel also polls channels that are due soon, before their windows.
func TestPollBeforeWindowServesSeveralChannels(t *testing.T) {
	now := time.Second
	slots := []slot{
		{lastSeq: new(uint64), due: now, period: 1250 * time.Microsecond},
		{lastSeq: new(uint64), due: now + time.Millisecond, polledAt: now - time.Millisecond, period: 1250 * time.Microsecond, window: window{from: now + 3*time.Millisecond, to: now + 4*time.Millisecond, sure: true}},
		{lastSeq: new(uint64), due: now + 500*time.Microsecond, polledAt: now - time.Millisecond, period: 1250 * time.Microsecond, window: window{from: now + 500*time.Microsecond, to: now + time.Millisecond, sure: true}},
	}
	pollSlots(slots, now, -1, nil)
	for i, want := range []time.Duration{now + 1250*time.Microsecond, now + 2*time.Millisecond, now + 500*time.Microsecond} {
		if slots[i].due != want {
			t.Errorf("channel %d: next look at %v, want %v", i, slots[i].due, want)
		}
	}
}

// A channel is no longer watched while all others have a window.
func TestLoopContinuesWithOnlyWindowedChannels(t *testing.T) {
	w := newBusyPollWatcher(t, newFakeProc(t, 1), time.Millisecond)
	w.slots[0].lastSeq = new(uint64)
	w.rearm()
	woken := make(chan error, 1)
	go func() { woken <- w.timer.wait() }()
	if err := await.Receive(t, "the timer, since a channel is watched", woken); err != nil {
		t.Fatal(err)
	}
}
