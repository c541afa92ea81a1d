package localach_test

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReserveFillsHoles(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "camera", 16, 10_000)
	put(t, c, 1)
	file, err := os.OpenFile(pathOf(d, "camera"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 1<<16, 1<<16); err != nil {
		t.Fatal(err)
	}
	missing := func() int64 {
		st, err := file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return max(0, st.Size()-st.Sys().(*syscall.Stat_t).Blocks*512)
	}
	if missing() == 0 {
		t.Fatal("the file has no hole: the test shows nothing")
	}

	if err := c.Reserve(); err != nil {
		t.Fatal(err)
	}
	if n := missing(); n != 0 {
		t.Errorf("got %d bytes without memory, want none", n)
	}
	buf := make([]byte, 100)
	n, err := c.Reader().Last(buf)
	if err == nil {
		_, err = checkFrame(buf[:n])
	}
	if err != nil {
		t.Errorf("the frame that was there: got %v", err)
	}
}
