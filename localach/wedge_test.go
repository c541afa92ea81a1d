package localach

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	"achbridge/testnet/await"
)

// wedge puts the condition variable into the state after a waiting process was killed: the process still counts as a waiter, and
// holds the inner lock or, up to glibc 2.40, a reference to its group.
func wedge(t *testing.T, c *Channel, innerLock bool) {
	t.Helper()
	words := c.memory[headerBytes-64 : headerBytes-16]
	add := func(word int, n uint32) {
		at := words[4*word:]
		binary.NativeEndian.PutUint32(at, binary.NativeEndian.Uint32(at)+n)
	}
	old := binary.NativeEndian.Uint32(words[4*9:]) == 3
	switch {
	case old && innerLock:
		add(9, 8)
		add(8, 1)
	case old:
		add(9, 8)
		add(0, 2) // wseq: one waiter in group 0
		add(5, 2) // g_refs[1]: one waiter that never released its reference
	default:
		add(7, 8)
		add(6, 1)
	}
}

func TestPutSucceedsWhileBroadcastHangs(t *testing.T) {
	for name, innerLock := range map[string]bool{"group reference": false, "inner lock": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // Close waits for 1 s
			c := create(t, tempDir(t), Geometry{})
			wedge(t, c, innerLock)
			w, r, buf := c.Writer(), c.Reader(), make([]byte, 16)
			put(t, w, "first")
			await.True(t, "the broadcast hangs", func() bool { return w.Stuck() > 20*time.Millisecond })
			await.Return(t, "calls on a damaged channel", func() {
				for range 1000 {
					put(t, w, "frame")
				}
			})
			n, err := r.Next(buf, 0)
			wantFrame(t, buf, n, err, "frame")

			if err := w.Close(); !errors.Is(err, ErrWedged) {
				t.Errorf("Close: got %v, want %v", err, ErrWedged)
			}
			if w.Stuck() != 0 {
				t.Errorf("a closed writer is stuck for %v", w.Stuck())
			}
			if err := c.Poison(); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Next(buf, 0); !errors.Is(err, ErrCorrupt) {
				t.Errorf("Next on the poisoned file: got %v, want %v", err, ErrCorrupt)
			}
			c.Close()
			await.True(t, "the mapping is given back", func() bool { return c.users.Load() == 0 })
		})
	}
}

func TestPoisonTimesOutWhileLockIsHeld(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	poke32(c, atLock, uint32(os.Getppid()))
	await.Return(t, "calls on a damaged channel", func() {
		if err := c.Poison(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Check(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v, want %v", err, ErrCorrupt)
	}
}

func TestWriterClosesWithoutBroadcast(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	w := c.Writer()
	put(t, w, "frame")
	if w.Stuck() != 0 || w.Close() != nil || w.Close() != nil {
		t.Error("Close failed")
	}
}
