package localach

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// tempDir returns a private directory on the file system of channels.
func tempDir(t testing.TB) Dir {
	t.Helper()
	dir, err := os.MkdirTemp(string(Shm), "achbridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return Dir(dir)
}

func create(t testing.TB, d Dir, g Geometry) *Channel {
	t.Helper()
	c, err := d.Create("imu", CreateConfig{Geometry: g})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func put(t testing.TB, w *Writer, frame string) uint64 {
	t.Helper()
	seq, err := w.Put([]byte(frame))
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func wantFrame(t testing.TB, buf []byte, n int, err error, want string) {
	t.Helper()
	if err != nil || string(buf[:n]) != want {
		t.Fatalf("got %q, %v, want %q", buf[:n], err, want)
	}
}

func TestNextReturnsNewestFrameOnce(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	w, r, buf := c.Writer(), c.Reader(), make([]byte, 100)
	put(t, w, "one")
	put(t, w, "two")
	n, err := r.Next(buf, 0)
	wantFrame(t, buf, n, err, "two")
	if r.Seq() != 2 || r.Missed() != 1 {
		t.Errorf("got seq %d, missed %d, want 2, 1", r.Seq(), r.Missed())
	}
	if _, err := r.Next(buf, 0); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("second Next: got %v, want %v", err, os.ErrDeadlineExceeded)
	}
	n, err = r.Last(buf)
	wantFrame(t, buf, n, err, "two")
}

func TestNextOldestReturnsAllFramesInOrder(t *testing.T) {
	c := create(t, tempDir(t), Geometry{FrameCount: 4, FrameSize: 8})
	w, r, buf := c.Writer(), c.Reader(), make([]byte, 8)
	for _, frame := range []string{"1", "2", "3"} {
		put(t, w, frame)
	}
	for _, want := range []string{"1", "2", "3"} {
		n, err := r.NextOldest(buf, 0)
		wantFrame(t, buf, n, err, want)
	}
}

func TestNextWaitsForFrame(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	go func() {
		time.Sleep(20 * time.Millisecond)
		c.Writer().Put([]byte("late"))
	}()
	buf := make([]byte, 8)
	n, err := c.Reader().Next(buf, await.Limit)
	wantFrame(t, buf, n, err, "late")
}

func TestNextTimesOut(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	if _, err := c.Reader().Next(nil, 20*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v, want %v", err, os.ErrDeadlineExceeded)
	}
}

func TestCloseEndsWaitingNext(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	done := make(chan error, 1)
	go func() {
		_, err := c.Reader().Next(nil, time.Hour)
		done <- err
	}()
	time.Sleep(10 * time.Millisecond)
	c.Close()
	await.Receive(t, "the end of Next", done)
}

func TestShortBufferLeavesFrameUnread(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	put(t, c.Writer(), "frame")
	r := c.Reader()
	for _, next := range []func([]byte, time.Duration) (int, error){r.Next, r.NextOldest} {
		if n, err := next(make([]byte, 4), 0); n != 5 || err != io.ErrShortBuffer {
			t.Errorf("got %d, %v, want 5, %v", n, err, io.ErrShortBuffer)
		}
	}
	buf := make([]byte, 5)
	n, err := r.Next(buf, 0)
	wantFrame(t, buf, n, err, "frame")
}

func TestPutRefusesEmptyAndOversizedFrames(t *testing.T) {
	w := create(t, tempDir(t), Geometry{FrameCount: 2, FrameSize: 8}).Writer()
	if _, err := w.Put(nil); !errors.Is(err, errEmpty) {
		t.Errorf("empty: got %v", err)
	}
	if _, err := w.Put(make([]byte, 17)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("17 bytes into 2x8: got %v", err)
	}
	if seq, err := w.Put(make([]byte, 16)); seq != 1 || err != nil {
		t.Errorf("the whole data area: got %d, %v", seq, err)
	}
}

// libach's put keeps an oldest frame that starts at data_head and overwrites it (ach-abi.md, "Put").
func TestFramesLargerThanNominalNeverOverlap(t *testing.T) {
	c := create(t, tempDir(t), Geometry{FrameCount: 10, FrameSize: 10})
	w, r := c.Writer(), c.Reader()
	for i, size := range []int{60, 40, 60, 50} {
		put(t, w, string(bytes.Repeat([]byte{byte('a' + i)}, size)))
	}
	buf := make([]byte, 100)
	for {
		n, err := r.NextOldest(buf, 0)
		if err != nil {
			return
		}
		if want := bytes.Repeat(buf[:1], n); !bytes.Equal(buf[:n], want) {
			t.Errorf("frame %d is mixed: %q", r.Seq(), buf[:n])
		}
	}
}

func TestCreateRefusesExistingName(t *testing.T) {
	d := tempDir(t)
	create(t, d, Geometry{})
	if _, err := d.Create("imu", CreateConfig{}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("got %v, want %v", err, fs.ErrExist)
	}
	left, _ := os.ReadDir(string(d))
	if len(left) != 1 {
		t.Errorf("got %d files, want the channel alone", len(left))
	}
}

// If the file cannot get the group, no other group gets the group's rights.
func TestCreateLikeFileOfUnavailableGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Missing(t, "needs a group that we may not give a file to: run as root")
	}
	d := tempDir(t)
	like := create(t, d, Geometry{})
	err := errors.Join(os.Chmod(string(d), 0o777), os.Chown(d.Path("imu"), -1, 65534), os.Chmod(d.Path("imu"), 0o664))
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.SetfsuidRetUid(65534)
	defer unix.SetfsuidRetUid(0)
	c, err := d.Create("new", CreateConfig{Like: like})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if st, _ := c.Stat(); st.Mode != 0o644 {
		t.Errorf("got %v, want 0644", st.Mode)
	}
}

func TestCreateSetsMode(t *testing.T) {
	d := tempDir(t)
	c, err := d.Create("imu", CreateConfig{Mode: 0o660})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if st, _ := c.Stat(); st.Mode != 0o660 {
		t.Errorf("got %v, want 0660", st.Mode)
	}
}

func TestOpenSharesChannel(t *testing.T) {
	d := tempDir(t)
	made := create(t, d, Geometry{FrameCount: 3, FrameSize: 30})
	c, err := d.Open("imu")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	put(t, made.Writer(), "shared")
	buf := make([]byte, 30)
	n, err := c.Reader().Next(buf, 0)
	wantFrame(t, buf, n, err, "shared")
	if c.Epoch() != made.Epoch() || c.Epoch() == 0 {
		t.Errorf("got epochs %x and %x, want the same", c.Epoch(), made.Epoch())
	}
	if c.Geometry() != (Geometry{3, 30}) || c.Name() != "imu" || c.LastSeq() != 1 {
		t.Errorf("got %v %s %d", c.Geometry(), c.Name(), c.LastSeq())
	}
	if err := c.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func TestTagIsStoredInFile(t *testing.T) {
	d := tempDir(t)
	want := Tag{Node: [16]byte{1, 15: 2}, Channel: 3, Epoch: 4, Seq: 5}
	c, err := d.Create("imu", CreateConfig{Tag: want})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	again, err := d.Open("imu")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := again.Tag(); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	want.Epoch, want.Seq = 5, 6
	if err := again.SetTag(want, 0); err != nil {
		t.Fatal(err)
	}
	list, err := d.List()
	if err != nil || len(list) != 1 || list[0].Tag != want || !list[0].Mirror {
		t.Errorf("List: got %+v, %v", list, err)
	}
}

func TestTagIgnoresFramesOfOtherPrograms(t *testing.T) {
	for what, ours := range map[string]uint64{"an empty mirror": 0, "a mirror with frames": 5} {
		c := create(t, tempDir(t), Geometry{})
		w := c.Writer()
		if err := c.SetTag(Tag{Channel: 3, Epoch: 4}, 0); err != nil {
			t.Fatal(err)
		}
		for seq := range ours {
			if err := c.SetTag(Tag{Channel: 3, Epoch: 4, Seq: seq + 1}, 1); err != nil {
				t.Fatal(err)
			}
			put(t, w, "ours")
		}
		put(t, w, "theirs")
		put(t, w, "theirs")
		if got := c.Tag().Seq; got != ours {
			t.Errorf("%s: got frame %d, want %d", what, got, ours)
		}
		if err := c.SetTag(c.Tag(), 0); err != nil { // as a restarted daemon does
			t.Fatal(err)
		}
		if got := c.Tag().Seq; got != ours {
			t.Errorf("%s, written down again: got frame %d, want %d", what, got, ours)
		}
		if err := c.SetTag(Tag{Channel: 3, Epoch: 5}, 0); err != nil {
			t.Fatal(err)
		}
		if got := c.Tag().Seq; got != 0 {
			t.Errorf("%s, of a new life of the origin: got frame %d, want none", what, got)
		}
		w.Close()
	}
}

// Files of older versions do not store which frames are ours.
func TestTagOfOlderVersionCountsAllFrames(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	w := c.Writer()
	defer w.Close()
	if err := c.SetTag(Tag{Channel: 3, Epoch: 4, Seq: 8}, 1); err != nil {
		t.Fatal(err)
	}
	clear(c.memory[192:200])
	put(t, w, "ours")
	put(t, w, "ours or theirs")
	if got := c.Tag().Seq; got != 9 {
		t.Errorf("got frame %d, want 9", got)
	}
}

func TestTagIsCorrectAfterCrashBeforeOrAfterPut(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	w := c.Writer()
	defer w.Close()
	held := func(want uint64) {
		t.Helper()
		if got := c.Tag().Seq; got != want {
			t.Errorf("got frame %d of the origin, want %d", got, want)
		}
	}
	for _, seq := range []uint64{1, 7, 9} {
		if err := c.SetTag(Tag{Channel: 3, Epoch: 4, Seq: seq}, 1); err != nil {
			t.Fatal(err)
		}
		held(seq - 1) // Seq is the number before, or a newer frame has replaced the missing one
		if _, err := w.Put([]byte("x")); err != nil {
			t.Fatal(err)
		}
		held(seq)
	}
	if err := c.SetTag(Tag{Channel: 3, Epoch: 5}, 0); err != nil {
		t.Fatal(err)
	}
	held(0)
}

func TestClosedChannelReturnsErrClosed(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	w, r := c.Writer(), c.Reader()
	c.Close()
	c.Close()
	_, errPut := w.Put([]byte("x"))
	_, errNext := r.Next(nil, 0)
	for _, err := range []error{errPut, errNext, r.Flush(), c.Check(), c.Poison()} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %v, want %v", err, os.ErrClosed)
		}
	}
}

func TestFramesAllocateNothing(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	w, r := c.Writer(), c.Reader()
	frame, buf, tag := make([]byte, 64), make([]byte, 512), Tag{Seq: 1}
	calls := map[string]func(){
		"Put":        func() { w.Put(frame) },
		"Next":       func() { w.Put(frame); r.Next(buf, 0) },
		"NextOldest": func() { w.Put(frame); r.NextOldest(buf, 0) },
		"Last":       func() { r.Last(buf) },
		"stale Next": func() { r.Next(buf, 0) },
		"LastSeq":    func() { c.LastSeq() },
		"SetTag":     func() { c.SetTag(tag, 0) },
		"too large":  func() { w.Put(make([]byte, 16*512+1)) },
	}
	for name, call := range calls {
		if got := testing.AllocsPerRun(100, call); got > 0 {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
}
