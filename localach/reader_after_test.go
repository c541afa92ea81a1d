package localach

import (
	"errors"
	"os"
	"testing"
)

func TestReaderAfterContinuesAfterFrame(t *testing.T) {
	for _, c := range []struct {
		name                     string
		put, after, want, missed uint64
	}{
		{"still there", 20, 17, 18, 0},
		{"the oldest", 20, 12, 13, 0},
		{"gone from the ring", 20, 5, 13, 7},
		{"from the beginning", 3, 0, 1, 0},
		{"nothing newer", 20, 20, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ch := create(t, tempDir(t), Geometry{FrameCount: 8, FrameSize: 64})
			w := ch.Writer()
			defer w.Close()
			for n := range c.put {
				if _, err := w.Put([]byte{byte(n + 1)}); err != nil {
					t.Fatal(err)
				}
			}
			r, buf := ch.ReaderAfter(c.after), make([]byte, 64)
			_, err := r.TryNextOldest(buf)
			if c.want == 0 {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("with nothing newer: got %v, want %v", err, os.ErrDeadlineExceeded)
				}
				return
			}
			if err != nil || r.Seq() != c.want || uint64(buf[0]) != c.want || r.Missed() != c.missed {
				t.Errorf("got frame %d (%d), %d missed, %v; want frame %d, %d missed", r.Seq(), buf[0], r.Missed(), err, c.want, c.missed)
			}
		})
	}
}
