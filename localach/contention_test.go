package localach_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"achbridge/localach"
	"achbridge/testnet/need"
)

// firstOwnWriter is the number of the first writer of ours. Writers of the C peer have smaller numbers.
const firstOwnWriter = 32

// writeUntil puts frames of changing size until stop is set.
func writeUntil(c *localach.Channel, number uint64, stop *atomic.Bool) error {
	w := c.Writer()
	defer w.Close()
	buf := make([]byte, 500)
	for n := uint64(1); !stop.Load(); {
		_, err := w.Put(makeFrame(buf[:64+n*37%400], number, n))
		if errors.Is(err, localach.ErrBusy) {
			continue
		}
		if err != nil {
			return fmt.Errorf("writer %d, frame %d: %w", number, n, err)
		}
		n++
	}
	return nil
}

// readUntil polls and checks each frame until count frames are from writers for which from returns true.
func readUntil(c *localach.Channel, count int, from func(writer uint64) bool) error {
	r, seen, buf := c.Reader(), order{}, make([]byte, 4096)
	next := r.Next
	if count%2 == 1 {
		next = r.NextOldest
	}
	for got := 0; got < count; {
		n, err := next(buf, 0)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, localach.ErrBusy) {
			runtime.Gosched()
			continue
		}
		if err != nil {
			return fmt.Errorf("after %d of %d frames: %w", got, count, err)
		}
		s, err := checkFrame(buf[:n])
		if err != nil {
			return fmt.Errorf("frame %d: %w", r.Seq(), err)
		}
		if err := seen.accept(r.Seq(), s); err != nil {
			return err
		}
		if from(s.writer) {
			got++
		}
	}
	return nil
}

// Our readers get 100,000 frames of C processes intact and in order, while our writers write too.
func TestGoReadersReadFramesOfCWriters(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "imu", 64, 512)
	writers := []*process{
		startPeer(t, pathOf(d, "imu"), "put", "0", "64-500", "0", "1").ready(),
		startPeer(t, pathOf(d, "imu"), "put", "0", "64-500", "0", "2").ready(),
	}
	startPeer(t, pathOf(d, "imu"), "get", "0", "w", "60000").ready()
	var stop atomic.Bool
	var group, ours sync.WaitGroup
	group.Go(func() {
		if err := writeUntil(c, firstOwnWriter, &stop); err != nil {
			t.Error(err)
		}
	})
	frames := need.LongOr(100_000, 2_000) // for each of the two
	for i := range 2 {
		ours.Go(func() {
			if err := readUntil(c, frames+i, func(writer uint64) bool { return writer < firstOwnWriter }); err != nil {
				t.Error(err)
			}
		})
	}
	ours.Wait()
	stop.Store(true)
	group.Wait()

	for _, w := range writers {
		if got := w.stop(); got["status"] != 0 {
			t.Errorf("C writer: got status %v, want 0", got["status"])
		}
	}
}

// C readers, one that polls and one that waits on the condition variable, get 100,000 of our frames intact and in order.
func TestCReadersReadFramesOfGoWriters(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "imu", 64, 512)
	startPeer(t, pathOf(d, "imu"), "put", "0", "64-500", "0", "1").ready()
	frames := fmt.Sprint(need.LongOr(100_000, 2_000)) // for each of the two
	readers := []*process{
		startPeer(t, pathOf(d, "imu"), "get", frames, "-", "0", fmt.Sprint(firstOwnWriter)).ready(),
		startPeer(t, pathOf(d, "imu"), "get", frames, "w", "60000", fmt.Sprint(firstOwnWriter)).ready(),
	}
	var stop atomic.Bool
	var group sync.WaitGroup
	for i := range uint64(2) {
		group.Go(func() {
			if err := writeUntil(c, firstOwnWriter+i, &stop); err != nil {
				t.Error(err)
			}
		})
	}

	for _, r := range readers {
		if got := r.result(); got["bad"] != 0 || got["back"] != 0 {
			t.Errorf("C reader: %v frames damaged, %v out of order, of %v", got["bad"], got["back"], got["got"])
		}
	}
	stop.Store(true)
	group.Wait()
}
