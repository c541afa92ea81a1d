package localach

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// Without guard.c, a file that shrinks while it is read and written would end the process with SIGBUS.
func TestTruncationWhileInUse(t *testing.T) {
	d := tempDir(t)
	bystander, err := d.Create("bystander", CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer bystander.Close()
	g := Geometry{4, 16384}
	sizes := []int64{0, 100, 4096, 8192, int64(g.bytes()) / 2}
	for range need.LongOr(1000, 20) {
		truncateInUse(t, d, g, sizes[rand.N(len(sizes))])
	}
	put(t, bystander.Writer(), "still here")
	buf := make([]byte, 512)
	n, err := bystander.Reader().NextOldest(buf, 0)
	wantFrame(t, buf, n, err, "still here")
}

func truncateInUse(t *testing.T, d Dir, g Geometry, size int64) {
	t.Helper()
	c, err := d.Create("victim", CreateConfig{Geometry: g, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var users sync.WaitGroup
	use := func(call func() error) {
		users.Go(func() {
			for deadline := await.Deadline(); ; {
				if err := call(); errors.Is(err, ErrCorrupt) {
					return // the rest of the header may have any content
				} else if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, ErrBusy) {
					t.Errorf("cut to %d: got %v, want %v", size, err, ErrCorrupt)
					return
				}
				if time.Now().After(deadline) {
					t.Errorf("cut to %d: never noticed", size)
					return
				}
			}
		})
	}
	w, newest, oldest := c.Writer(), c.Reader(), c.Reader()
	frame, bufA, bufB := make([]byte, 16000), make([]byte, 16384), make([]byte, 16384)
	use(func() error { _, err := w.Put(frame); return err })
	use(func() error { _, err := newest.Last(bufA); return err })
	use(func() error { _, err := oldest.NextOldest(bufB, 0); return err })
	time.Sleep(time.Duration(rand.N(300)) * time.Microsecond)
	if err := os.Truncate(d.Path("victim"), size); err != nil {
		t.Fatal(err)
	}
	users.Wait()
	if err := c.Check(); !errors.Is(err, ErrTruncated) {
		t.Errorf("Check: got %v, want %v", err, ErrTruncated)
	}
	c.LastSeq()
}

// The data is truncated, but not the header with the lock. The lock must be released, and not stay owned by a thread that has
// continued.
func TestLockIsReleasedAfterTruncation(t *testing.T) {
	for name, use := range map[string]func(c *Channel) error{
		"put":         func(c *Channel) error { _, err := c.Writer().Put(make([]byte, 16000)); return err },
		"next oldest": func(c *Channel) error { _, err := c.Reader().NextOldest(make([]byte, 16384), 0); return err },
		"last":        func(c *Channel) error { _, err := c.Reader().Last(make([]byte, 16384)); return err },
	} {
		d := tempDir(t)
		c := create(t, d, Geometry{4, 16384})
		put(t, c.Writer(), string(make([]byte, 16384)))
		truncateMiddle(t, d, c)
		if err := use(c); !errors.Is(err, ErrTruncated) {
			t.Errorf("%s: got %v, want %v", name, err, ErrTruncated)
		}
		if word := binary.NativeEndian.Uint32(c.memory[atLock:]); word != 0 {
			t.Errorf("%s: the lock word is %#x, want it free", name, word)
		}
		if owner := binary.NativeEndian.Uint32(c.memory[atOwner:]); owner != 0 {
			t.Errorf("%s: the owner is %d, want none", name, owner)
		}
	}
}

// truncateMiddle removes the middle of c's data and leaves the pages with the header and the guards, so that the fault happens
// under the lock. It maps another, shorter file over the middle.
func truncateMiddle(t *testing.T, d Dir, c *Channel) {
	t.Helper()
	file, err := os.Create(d.Path("hole"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	at := unsafe.Pointer(&c.memory[4096])
	if _, err := unix.MmapPtr(int(file.Fd()), 0, at, 3*16384, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		t.Fatal(err)
	}
}
