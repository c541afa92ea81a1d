package localach_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/testnet/need"
)

// ach1xVersions are the two kinds of locks that channels of Ach 1.x have. Rings of 1.1 are those of 1.0.
var ach1xVersions = []string{"1.0", "1.2"}

func createAch1x(t *testing.T, version string, count, size int) (localach.Dir, *localach.Channel) {
	t.Helper()
	if version == "1.0" && runtime.GOARCH != "amd64" {
		t.Skip("without the lock only x86-64 can read")
	}
	d := privateDir(t)
	runPeer(t, pathOf(d, "imu"), "create", fmt.Sprint(count), fmt.Sprint(size), version)
	c, err := d.OpenToRead("imu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return d, c
}

// A program of Ach 1.x puts frames of sizes up to that of the ring, so that frames are split at every byte. A reader in another
// process must get every byte right.
func TestFramesOfAch1AreJoined(t *testing.T) {
	for _, version := range ach1xVersions {
		for _, g := range []struct {
			count, size int
			sizes       string
		}{
			{16, 64, "40-200"},               // varying sizes
			{7, 61, "45-45"},                 // one size, split at each byte in turn
			{4, 128, "40-300+512"},           // often as large as the ring
			{1, 100, "100-100"},              // always as large as the ring
			{3, 30_000, "20000-60000+90000"}, // large enough for non-temporal copies, and for the check for holes
		} {
			t.Run(fmt.Sprintf("%s %dx%d frames of %s", version, g.count, g.size, g.sizes), func(t *testing.T) {
				d, c := createAch1x(t, version, g.count, g.size)
				writer := startPeer(t, pathOf(d, "imu"), "put-1.x", "0", g.sizes, "3000", "1").ready()
				reads := need.LongOr(130_000, 3000) // for each of ten rings
				for _, read := range []func(*localach.Reader, []byte) (int, error){(*localach.Reader).TryNextOldest, (*localach.Reader).TryNext} {
					readIntact(t, c.Reader(), read, reads/2)
				}
				if stat, err := c.Stat(); err != nil || stat.ForeignCond {
					t.Errorf("Stat = %+v, %v, want no foreign condition variable", stat, err)
				}
				if put := writer.stop()["put"]; put < 100 {
					t.Errorf("the writer put %v frames, want it to work beside readers", put)
				}
			})
		}
	}
}

// readIntact reads count frames, or fewer if that takes too long. It checks the bytes of each frame, and that Missed counts the
// frames in between.
func readIntact(t *testing.T, r *localach.Reader, read func(*localach.Reader, []byte) (int, error), count int) {
	t.Helper()
	buf, missed, got := make([]byte, 100_000), uint64(0), 0
	until := time.Now().Add(time.Duration(need.LongOr(3000, 60)) * time.Millisecond)
	for got < 3 || got < count && time.Now().Before(until) {
		before := r.Seq()
		n, err := read(r, buf)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, localach.ErrBusy) {
			runtime.Gosched()
			continue
		}
		if err != nil {
			t.Fatalf("frame after %d: %v", before, err)
		}
		s, err := checkFrame(buf[:n])
		if err != nil || s.count != r.Seq() || r.Missed() != r.Seq()-before-1 {
			t.Fatalf("frame %d after %d, missed %d: count %d, %v", r.Seq(), before, r.Missed(), s.count, err)
		}
		missed += r.Missed()
		got++
	}
	t.Logf("%d frames read, %d missed", got, missed)
}

// A reader of all frames that is too slow misses only frames that the ring no longer has. It continues with the oldest.
func TestOverrunReaderOfAch1SkipsToOldest(t *testing.T) {
	for _, version := range ach1xVersions {
		t.Run(version, func(t *testing.T) {
			d, c := createAch1x(t, version, 5, 64)
			r, buf := c.Reader(), make([]byte, 400)
			put := func(count string) { runPeer(t, pathOf(d, "imu"), "put-1.x", count, "50-50", "0", "1") }
			put("3")
			if n, err := r.NextOldest(buf, 0); err != nil || n != 50 || r.Seq() != 1 {
				t.Fatalf("NextOldest = %d, %v, frame %d; want 50 bytes of frame 1", n, err, r.Seq())
			}
			put("20")
			for want := uint64(19); want <= 23; want++ {
				n, err := r.NextOldest(buf, 0)
				if _, bad := checkFrame(buf[:n]); err != nil || bad != nil || r.Seq() != want {
					t.Errorf("NextOldest = %d, %v, frame %d (%v); want frame %d", n, err, r.Seq(), bad, want)
				}
			}
			if _, err := r.NextOldest(buf, 0); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("NextOldest at the end = %v, want ErrDeadlineExceeded", err)
			}
		})
	}
}

// If a program is killed while it holds the plain lock of Ach 1.0, the lock stays taken. Reads then fail after 100 ms, and the error
// names the thread that held the lock.
func TestLockOfAch1IsNeverTaken(t *testing.T) {
	d, c := createAch1x(t, "1.0", 4, 64)
	runPeer(t, pathOf(d, "imu"), "put-1.x", "3", "50-50", "0", "1")
	holder := startPeer(t, pathOf(d, "imu"), "hold", "60000").ready()
	buf, r := make([]byte, 300), c.Reader()
	for call, read := range map[string]func() error{
		"Next":       func() error { _, err := r.Next(buf, 0); return err },
		"NextOldest": func() error { _, err := r.NextOldest(buf, 0); return err },
		"TryNext":    func() error { _, err := r.TryNext(buf); return err },
		"Flush":      r.Flush,
	} {
		if err := read(); !errors.Is(err, localach.ErrBusy) {
			t.Errorf("%s with the lock held = %v, want ErrBusy", call, err)
		}
	}
	if stat, err := c.Stat(); err != nil || stat.LockOwner != holder.cmd.Process.Pid {
		t.Errorf("Stat = %+v, %v, want the lock's owner %d", stat, err, holder.cmd.Process.Pid)
	}
	holder.kill()
	if _, err := c.Reader().Next(buf, 0); !errors.Is(err, localach.ErrBusy) {
		t.Errorf("Next after the holder was killed = %v, want ErrBusy", err)
	}
}

// Another program writes arbitrary numbers into the header and the index. No call may crash, read outside the ring, or block long.
func TestHostileRingOfAch1(t *testing.T) {
	const count, size = 4, 64
	const words = (320 + 8 + count*24) / 8
	for _, version := range ach1xVersions {
		t.Run(version, func(t *testing.T) {
			d, c := createAch1x(t, version, count, size)
			runPeer(t, pathOf(d, "imu"), "put-1.x", "9", "40-200", "0", "1")
			file, err := os.OpenFile(pathOf(d, "imu"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			good, err := os.ReadFile(pathOf(d, "imu"))
			if err != nil {
				t.Fatal(err)
			}
			buf, read := make([]byte, 1000), 0
			for at := 0; at < words; at++ {
				if at == 216/8 {
					continue // a held lock; see TestLockOfAch1IsNeverTaken
				}
				for _, word := range []uint64{0, 1, count, size, count*size - 1, count * size, count*size + 1, 1 << 62, 1<<64 - 8, 1<<64 - 1} {
					if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, word), int64(8*at)); err != nil {
						t.Fatal(err)
					}
					hostile, err := d.TryOpenToRead("imu")
					if err != nil {
						hostile = c
					}
					for _, get := range []func(*localach.Reader, []byte) (int, error){(*localach.Reader).TryNextOldest, (*localach.Reader).TryNext, (*localach.Reader).Last} {
						n, err := get(hostile.Reader(), buf)
						if err == nil && (n < 1 || n > count*size) {
							t.Errorf("word %d = %#x: a frame of %d bytes", at, word, n)
						}
						if err == nil {
							read++
						}
					}
					hostile.LargestFrame()
					_, _ = hostile.Stat()
					_ = hostile.Check()
					if hostile != c {
						hostile.Close()
					}
					if _, err := file.WriteAt(good[8*at:8*at+8], int64(8*at)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if read == 0 {
				t.Error("no frame was read, want those that the numbers do not concern")
			}
			if now, err := os.ReadFile(pathOf(d, "imu")); err != nil || !bytes.Equal(now[:216], good[:216]) || !bytes.Equal(now[320:], good[320:]) {
				t.Errorf("the file differs from before (%v), want no reader to change it", err)
			}
		})
	}
}
