package localach_test

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// A reader of ours that is killed while it waits must not delay the writer, since it never uses the condition variable.
func TestKilledWaitingReaderNeverStallsCWriter(t *testing.T) {
	d := privateDir(t)
	createIn(t, d, "imu", 16, 64)
	writer := startPeer(t, pathOf(d, "imu"), "put", "0", "64", "1000000", "1").ready()
	const atOnce = 5
	for range need.LongOr(20, 1) {
		var readers []*process
		for range atOnce {
			readers = append(readers, startOurs(t, d, "wait", "imu"))
		}
		for _, r := range readers {
			r.ready()
			r.kill()
		}
	}
	var got map[string]float64
	await.Return(t, "the writer", func() { got = writer.stop() })
	if got["status"] != 0 {
		t.Errorf("got status %v, want 0", got["status"])
	}
}

// A C reader that is killed while it waits wedges the condition variable of glibc up to 2.40, but not from 2.41. Our puts still
// succeed, Stuck reports the problem, and a new file and Poison for the old one end it.
func TestPutsNeverStallAfterKilledCReaders(t *testing.T) {
	d := privateDir(t)
	c, other := createIn(t, d, "imu", 16, 64), createIn(t, d, "joints", 16, 64)
	robust := condFrom241(t, pathOf(d, "imu"))
	startPeer(t, pathOf(d, "joints"), "get", "0", "w", "60000").ready()
	w, beside := c.Writer(), other.Writer()
	t.Cleanup(func() { beside.Close() })
	count, buf := uint64(0), make([]byte, 64)
	put := func() {
		count++
		for _, w := range []*localach.Writer{w, beside} {
			if _, err := w.Put(makeFrame(buf, firstOwnWriter, count)); err != nil {
				t.Fatal(err)
			}
		}
	}

	stuck := func() bool {
		put()
		for end := time.Now().Add(50 * time.Millisecond); w.Stuck() < 20*time.Millisecond && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		return w.Stuck() >= 20*time.Millisecond
	}
	begin := time.Now()
	for kills := 0; kills < need.LongOr(100, 5) || !robust && !stuck(); kills++ {
		if time.Since(begin) > 2*await.Limit {
			t.Fatalf("%d readers were killed, and no broadcast is stuck: the test shows nothing", kills)
		}
		reader := startPeer(t, pathOf(d, "imu"), "wait").ready()
		waiting := func() bool { s, err := c.Stat(); return err == nil && s.Waiters > 0 || w.Stuck() > 0 }
		await.True(t, "a waiting reader", waiting)
		put()
		reader.kill()
		put()
	}
	if robust {
		await.True(t, "nothing is stuck", func() bool { return w.Stuck() == 0 })
		return
	}
	await.Return(t, "puts while the broadcast is stuck", func() {
		for range 100 {
			put()
		}
	})
	await.True(t, "the other channel's broadcast is not stuck", func() bool { return beside.Stuck() == 0 })
	heal(t, d, c, w)
}

// condFrom241 reports whether the condition variable of a new channel has the layout of glibc from 2.41.
func condFrom241(t *testing.T, path string) bool {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint32(file[localach.CondAt+4*7:]) == 3
}

// heal replaces a wedged channel as a mirror does, and starts a C reader that waits on the new one.
func heal(t *testing.T, d localach.Dir, old *localach.Channel, w *localach.Writer) {
	t.Helper()
	held := startPeer(t, pathOf(d, "imu"), "get", "0", "w", "60000").ready() // has the old file open and waits on it
	fresh, err := d.Create("imu", localach.CreateConfig{Geometry: old.Geometry(), Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fresh.Close() })
	await.Return(t, "poison", func() {
		if err := old.Poison(); err != nil {
			t.Errorf("poison: %v", err)
		}
	})
	await.True(t, "the broadcast let go", func() bool { return w.Stuck() == 0 })
	await.Return(t, "close of the wedged writer", func() { err = w.Close() })
	if err != nil {
		t.Errorf("close of the wedged writer: %v", err)
	}
	await.Return(t, "the reader of the old file let go", held.wait)
	if held.cmd.ProcessState.ExitCode() < 0 {
		t.Errorf("the reader of the old file: got %v, want an error of its own", held.cmd.ProcessState)
	}

	reader := startPeer(t, pathOf(d, "imu"), "get", "20", "w", "60000").ready()
	again := fresh.Writer()
	defer again.Close()
	for n := uint64(1); ; n++ {
		if _, err := again.Put(makeFrame(make([]byte, 64), firstOwnWriter, n)); err != nil {
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

// A Next that waits must return when a writer is killed inside put.
func TestWaitingReaderReportsDirtyChannel(t *testing.T) {
	t.Parallel()
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

	await.Return(t, "next", group.Wait)
	for _, err := range errs {
		if !errors.Is(err, localach.ErrDirty) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want ErrDirty or the end of the wait", err)
		}
	}
	if err := c.Check(); !errors.Is(err, localach.ErrDirty) {
		t.Errorf("check: got %v, want ErrDirty", err)
	}
}
