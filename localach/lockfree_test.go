package localach

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/testnet/need"
)

// seal fills a frame so that sealed detects any mixture of two frames.
func seal(frame []byte) {
	seed := rand.Uint64() | 1
	for i := 0; i+8 <= len(frame); i += 8 {
		binary.NativeEndian.PutUint64(frame[i:], seed*uint64(len(frame))+uint64(i))
	}
	for i := len(frame) &^ 7; i < len(frame); i++ {
		frame[i] = byte(len(frame))
	}
	binary.NativeEndian.PutUint64(frame, seed)
}

func sealed(frame []byte) bool {
	if len(frame) < 8 {
		return false
	}
	seed := binary.NativeEndian.Uint64(frame)
	for i := 8; i+8 <= len(frame); i += 8 {
		if binary.NativeEndian.Uint64(frame[i:]) != seed*uint64(len(frame))+uint64(i) {
			return false
		}
	}
	for i := len(frame) &^ 7; i < len(frame); i++ {
		if frame[i] != byte(len(frame)) {
			return false
		}
	}
	return true
}

// Writers fill small rings with frames of random sizes as fast as they can, so that the bytes that readers copy are overwritten
// all the time.
func TestNoFrameIsEverTorn(t *testing.T) {
	for _, g := range []Geometry{{1, 64}, {2, 3000}, {3, 200}, {16, 512}, {2, 100_000}} {
		t.Run(g.String(), func(t *testing.T) {
			c := create(t, tempDir(t), g)
			reads := need.LongOr(min(1_000_000, 1_000_000_000/g.FrameSize), 4000)
			var stop atomic.Bool
			limit := time.AfterFunc(time.Duration(need.LongOr(5_000, 60))*time.Millisecond, func() { stop.Store(true) })
			defer limit.Stop()
			var writers, readers sync.WaitGroup
			for range 2 {
				writers.Go(func() { writeSealed(t, c, &stop) })
			}
			readers.Go(func() { readSealed(t, c.Reader().Next0, reads, &stop) })
			readers.Go(func() { readSealed(t, c.Reader().Last, reads, &stop) })
			readers.Go(func() { readSealed(t, c.Reader().NextOldest0, reads, &stop) })
			readers.Wait()
			t.Logf("%d frames put", c.LastSeq())
			stop.Store(true)
			writers.Wait()
		})
	}
}

func (r *Reader) Next0(buf []byte) (int, error)       { return r.Next(buf, 0) }
func (r *Reader) NextOldest0(buf []byte) (int, error) { return r.NextOldest(buf, 0) }

func writeSealed(t *testing.T, c *Channel, stop *atomic.Bool) {
	w, frame := c.Writer(), make([]byte, c.Geometry().FrameSize)
	for !stop.Load() {
		part := frame[:8+rand.N(len(frame)-7)]
		seal(part)
		if _, err := w.Put(part); err != nil && !errors.Is(err, ErrBusy) {
			t.Error(err)
			return
		}
	}
}

func readSealed(t *testing.T, read func([]byte) (int, error), count int, stop *atomic.Bool) {
	buf := make([]byte, 100_000)
	for got := 0; got < count && !stop.Load(); {
		n, err := read(buf)
		switch {
		case err == nil:
			got++
			if !sealed(buf[:n]) {
				t.Errorf("a torn frame of %d bytes", n)
				return
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			runtime.Gosched()
		case !errors.Is(err, ErrBusy):
			t.Error(err)
			return
		}
	}
}
