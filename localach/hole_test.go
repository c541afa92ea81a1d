package localach

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// blocks returns the memory of a channel's file, in units of 512 bytes.
func blocks(t *testing.T, c *Channel) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(c.dir.Path(c.name), &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks
}

func TestFrameInHoleIsRefusedAndAllocatesNothing(t *testing.T) {
	const size = 1 << 20
	c := create(t, tempDir(t), Geometry{FrameCount: 4, FrameSize: size})
	w := c.Writer()
	defer w.Close()
	frame := bytes.Repeat([]byte{7}, size)
	if _, err := w.Put(frame); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(c.dir.Path(c.name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	if err := unix.Fallocate(int(file.Fd()), punch, 4096, 2*size); err != nil {
		t.Fatal(err)
	}
	before := blocks(t, c)

	for name, get := range map[string]func(*Reader, []byte) (int, error){
		"newest": func(r *Reader, b []byte) (int, error) { return r.TryNext(b) },
		"oldest": func(r *Reader, b []byte) (int, error) { return r.TryNextOldest(b) },
		"look":   func(r *Reader, _ []byte) (int, error) { return r.TryNext(nil) },
	} {
		r := c.Reader()
		if _, err := get(r, make([]byte, size)); !errors.Is(err, ErrHole) {
			t.Errorf("%s: got %v, want %v", name, err, ErrHole)
		}
		if r.Skip(); r.Seq() != 1 {
			t.Errorf("%s: got frame %d after the one in the hole, want it to count as seen", name, r.Seq())
		}
	}
	if after := blocks(t, c); after != before {
		t.Errorf("the file grew from %d to %d KiB because it was read", before/2, after/2)
	}

	r := c.Reader()
	r.Skip() // does nothing, since no frame was found
	if _, err := w.Put(frame[:size/2]); err != nil {
		t.Fatal(err)
	}
	if n, err := r.TryNext(nil); n != size/2 || !errors.Is(err, io.ErrShortBuffer) {
		t.Errorf("a look at the next: got %d bytes, %v; want %d and %v", n, err, size/2, io.ErrShortBuffer)
	}
	buf := make([]byte, size)
	if n, err := r.TryNext(buf); err != nil || !bytes.Equal(buf[:n], frame[:size/2]) || r.Seq() != 2 {
		t.Errorf("the next: got frame %d of %d bytes, %v; want frame 2 as it was put", r.Seq(), n, err)
	}
}
