package localach_test

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"achbridge/localach"
)

// A put that takes this long is one that hung.
const stalled = 500 * time.Millisecond

// A reader of ours that is killed while it waits must not cost the robot's writer anything: it never was on the condition variable.
func TestKillingOurWaitingReadersNeverStallsACWriter(t *testing.T) {
	d := privateDir(t)
	createIn(t, d, "imu", 16, 64)
	undisturbed := runPeer(t, pathOf(d, "imu"), "put", "1000", "64", "1000000", "1")
	writer := startPeer(t, pathOf(d, "imu"), "put", "0", "64", "1000000", "1").ready()
	const kills = 100
	for range kills / 10 {
		var readers []*process
		for range 10 {
			readers = append(readers, startOurs(t, d, "wait", "imu"))
		}
		for _, r := range readers {
			r.ready()
			r.kill()
		}
	}
	disturbed := writer.stop()

	t.Logf("longest put %v (p99 %v) with %d readers killed, %v (p99 %v) without",
		nanos(disturbed["max_ns"]), nanos(disturbed["p99_ns"]), kills, nanos(undisturbed["max_ns"]), nanos(undisturbed["p99_ns"]))
	if disturbed["status"] != 0 || nanos(disturbed["max_ns"]) > max(stalled, 10*nanos(undisturbed["max_ns"])) {
		t.Errorf("got status %v and a longest put of %v, want 0 and at most %v", disturbed["status"], nanos(disturbed["max_ns"]), stalled)
	}
}

func nanos(ns float64) time.Duration { return time.Duration(ns) }

// A C reader killed in its condition wait wedges the variable of glibc up to 2.40. Our puts go on, there and elsewhere; Stuck
// says so; a new file and Poison for the old one end it. That of glibc from 2.41 is not wedged.
func TestOurPutsNeverStallWhenCReadersAreKilledWaiting(t *testing.T) {
	d := privateDir(t)
	c, other := createIn(t, d, "imu", 16, 64), createIn(t, d, "joints", 16, 64)
	robust := condFrom241(t, pathOf(d, "imu"))
	startPeer(t, pathOf(d, "joints"), "get", "0", "w", "60000").ready()
	w, beside := c.Writer(), other.Writer()
	t.Cleanup(func() { beside.Close() })
	worst := &longest{}
	buf := make([]byte, 64)
	put := func() {
		worst.put(t, w, buf)
		worst.put(t, beside, buf)
	}

	for range 100 {
		reader := startPeer(t, pathOf(d, "imu"), "wait").ready()
		waiting := func() bool { s, err := c.Stat(); return err == nil && s.Waiters > 0 || w.Stuck() > 0 }
		eventually(t, "a waiting reader", waiting)
		put()
		reader.kill()
		put()
	}
	if robust {
		eventually(t, "nothing is stuck", func() bool { return w.Stuck() == 0 })
		return
	}
	eventually(t, "the broadcast stuck", func() bool { put(); return w.Stuck() > 20*time.Millisecond })
	for range 100 {
		put()
	}
	t.Logf("longest put %v; the broadcast stuck for %v", worst.d, w.Stuck())
	if worst.d > stalled {
		t.Errorf("longest put %v, want at most %v", worst.d, stalled)
	}
	if beside.Stuck() > stalled {
		t.Errorf("the other channel's broadcast has been stuck for %v", beside.Stuck())
	}
	heal(t, d, c, w)
}

// condFrom241 reports whether the condition variable of a new channel is laid out as by glibc from 2.41.
func condFrom241(t *testing.T, path string) bool {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint32(file[localach.CondAt+4*7:]) == 3
}

// heal replaces a wedged channel as a mirror does, and has a C reader wait on the new one.
func heal(t *testing.T, d localach.Dir, old *localach.Channel, w *localach.Writer) {
	t.Helper()
	held := startPeer(t, pathOf(d, "imu"), "get", "0", "w", "60000").ready() // opens the old file and waits there
	fresh, err := d.Create("imu", localach.CreateConfig{Geometry: old.Geometry(), Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fresh.Close() })
	within(t, 2*time.Second, "poison", func() {
		if err := old.Poison(); err != nil {
			t.Errorf("poison: %v", err)
		}
	})
	eventually(t, "the broadcast let go", func() bool { return w.Stuck() == 0 })
	within(t, 5*time.Second, "close of the wedged writer", func() { err = w.Close() })
	if err != nil {
		t.Errorf("close of the wedged writer: %v", err)
	}
	ended := make(chan struct{})
	go func() { held.wait(); close(ended) }()
	within(t, 5*time.Second, "the reader of the old file let go", func() { <-ended })
	if held.cmd.ProcessState.ExitCode() < 0 {
		t.Errorf("the reader of the old file: got %v, want an error of its own", held.cmd.ProcessState)
	}

	reader := startPeer(t, pathOf(d, "imu"), "get", "20", "w", "5000").ready()
	again := fresh.Writer()
	defer again.Close()
	for n := uint64(1); ; n++ {
		if _, err := again.Put(makeFrame(make([]byte, 64), oursFrom, n)); err != nil {
			t.Fatal(err)
		}
		if n%20 == 0 && reader.exited() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if got := reader.result(); got["got"] != 20 || got["bad"] != 0 {
		t.Errorf("C reader of the new file: got %v", got)
	}
}

// longest keeps the longest put.
type longest struct {
	d time.Duration
	n uint64
}

func (l *longest) put(t testing.TB, w *localach.Writer, buf []byte) {
	t.Helper()
	l.n++
	start := time.Now()
	if _, err := w.Put(makeFrame(buf, oursFrom, l.n)); err != nil {
		t.Fatal(err)
	}
	l.d = max(l.d, time.Since(start))
}

// A waiting Next of ours must not hang either when the channel it waits on dies under it.
func TestOurWaitingReaderIsToldWhenItsWriterDies(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "imu", 16, 64)
	var group sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		group.Go(func() {
			_, errs[i] = c.Reader().Next(make([]byte, 64), 300*time.Millisecond)
		})
	}
	startPeer(t, pathOf(d, "imu"), "die-in-put").wait()

	within(t, 5*time.Second, "next", group.Wait)
	for _, err := range errs {
		if !errors.Is(err, localach.ErrDirty) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want ErrDirty or the end of the wait", err)
		}
	}
	if err := c.Check(); !errors.Is(err, localach.ErrDirty) {
		t.Errorf("check: got %v, want ErrDirty", err)
	}
}
