package localach_test

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/localach"
)

// What goes wrong in the field (ach-abi.md), with live processes.

// user is our use of one channel: a reader, a writer and a watch, all of which must survive what is done to the file.
type user struct {
	t      *testing.T
	c      *localach.Channel
	r      *localach.Reader
	w      *localach.Writer
	buf    []byte
	newest atomic.Uint64 // as the Watcher says
}

func use(t *testing.T, d localach.Dir, name string) *user {
	t.Helper()
	c, err := d.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return useOpen(t, c)
}

func useOpen(t *testing.T, c *localach.Channel) *user {
	t.Helper()
	u := &user{t: t, c: c, r: c.Reader(), w: c.Writer(), buf: make([]byte, 4096)}
	n := startWatcher(t).Watch(c, func(seq uint64, _ int) { u.newest.Store(seq) })
	t.Cleanup(func() { n.Close(); u.w.Close(); c.Close() })
	return u
}

// receive reads frames until one carries count.
func (u *user) receive(count uint64) {
	u.t.Helper()
	for {
		n, err := u.r.Next(u.buf, 5*time.Second)
		if err != nil {
			u.t.Fatalf("frame %d: %v", count, err)
		}
		s, err := checkFrame(u.buf[:n])
		if err != nil {
			u.t.Fatal(err)
		}
		if s.count == count {
			return
		}
	}
}

// eventuallyFails waits for Check to name the failure, then has every other call return.
func (u *user) eventuallyFails(want error) {
	u.t.Helper()
	eventually(u.t, want.Error(), func() bool { return errors.Is(u.c.Check(), want) })
	within(u.t, 5*time.Second, "calls on the lost channel", func() {
		_, _ = u.r.Next(u.buf, 10*time.Millisecond)
		_, _ = u.r.NextOldest(u.buf, 0)
		_, _ = u.r.Last(u.buf)
		_, _ = u.w.Put(u.buf[:64])
		_, _ = u.c.Stat()
		u.c.LastSeq()
	})
}

// A program that holds one frame, a map say, is started again: as many frames are there as before.
func TestAsManyFramesAsBeforeHideNoNewLife(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "map", 16, 64)
	w := startWatcher(t)
	defer w.Watch(c, func(uint64, int) {}).Close()
	put(t, c, 1)
	time.Sleep(20 * time.Millisecond) // as long as it takes the program
	runPeer(t, pathOf(d, "map"), "create", "16", "64", "in-place")
	time.Sleep(20 * time.Millisecond)
	runPeer(t, pathOf(d, "map"), "put", "1", "64", "0", "1")
	if err := c.Check(); !errors.Is(err, localach.ErrReinitialised) {
		t.Errorf("got %v, want %v", err, localach.ErrReinitialised)
	}
}

// Its file was half created in between, and the handle is closed.
func TestAChannelThatWasHalfCreatedOpensAnew(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "map", 16, 64)
	c.Close()
	runPeer(t, pathOf(d, "map"), "create", "16", "64", "in-place")
	anew, err := c.ReopenAnew()
	if err != nil {
		t.Fatal(err)
	}
	defer anew.Close()
	if anew.Epoch() == c.Epoch() {
		t.Error("it has the epoch of its life before")
	}
}

func TestAChannelInitialisedAgainInPlaceIsNamedAndOpensAnew(t *testing.T) {
	for _, with := range []struct {
		count, size string
		want        error
	}{
		{"16", "512", localach.ErrReinitialised},
		{"64", "512", localach.ErrReinitialised},
		{"4", "64", localach.ErrTruncated}, // the old mapping reaches beyond the file now
	} {
		t.Run(with.count+"x"+with.size, func(t *testing.T) {
			d := privateDir(t)
			createIn(t, d, "imu", 16, 512)
			old := use(t, d, "imu")
			runPeer(t, pathOf(d, "imu"), "put", "100", "64", "0", "1")
			old.receive(100)

			runPeer(t, pathOf(d, "imu"), "create", with.count, with.size, "in-place")
			runPeer(t, pathOf(d, "imu"), "put", "10", "64", "0", "1")

			old.eventuallyFails(with.want)
			c, err := old.c.Reopen()
			if err != nil {
				t.Fatal(err)
			}
			anew := useOpen(t, c)
			anew.receive(10)
			if anew.c.Epoch() == old.c.Epoch() {
				t.Error("epoch: got the same, want another")
			}
		})
	}
}

func TestAChannelRemovedAndMadeAnewIsNamed(t *testing.T) {
	d := privateDir(t)
	runPeer(t, pathOf(d, "imu"), "create", "16", "512")
	old := use(t, d, "imu")
	onOrphan := startPeer(t, pathOf(d, "imu"), "put", "0", "64", "1000000", "1").ready()

	if err := d.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	if err := old.c.Check(); !errors.Is(err, localach.ErrUnlinked) {
		t.Errorf("removed: got %v, want ErrUnlinked", err)
	}
	runPeer(t, pathOf(d, "imu"), "create", "16", "512")
	if err := old.c.Check(); !errors.Is(err, localach.ErrReplaced) {
		t.Errorf("made anew: got %v, want ErrReplaced", err)
	}
	seq := old.c.LastSeq()
	eventually(t, "the orphan still in use", func() bool { return old.c.LastSeq() > seq+5 })
	onOrphan.stop()

	anew := use(t, d, "imu")
	runPeer(t, pathOf(d, "imu"), "put", "3", "64", "0", "2")
	anew.receive(3)
	if anew.c.Epoch() == old.c.Epoch() {
		t.Error("epoch: got the same, want another")
	}
}

func TestAChannelCutShortUnderItsUsersIsNamed(t *testing.T) {
	d := privateDir(t)
	createIn(t, d, "imu", 16, 4096)
	u := use(t, d, "imu")
	for _, size := range []int64{8192, 320, 0} {
		if err := os.Truncate(pathOf(d, "imu"), size); err != nil {
			t.Fatal(err)
		}
		u.eventuallyFails(localach.ErrTruncated)
	}
	if _, err := d.Open("imu"); !errors.Is(err, localach.ErrHalfCreated) && !errors.Is(err, localach.ErrTruncated) {
		t.Errorf("open: got %v, want ErrHalfCreated", err)
	}
}

func TestAChannelLeftHalfCreatedIsNamedAndWaitedFor(t *testing.T) {
	d := privateDir(t)
	bytes := strconv.Itoa(352 + 16*(24+512))
	startPeer(t, pathOf(d, "imu"), "half", bytes).wait()
	within(t, 5*time.Second, "open of a half-created channel", func() {
		if _, err := d.Open("imu"); !errors.Is(err, localach.ErrHalfCreated) {
			t.Errorf("got %v, want ErrHalfCreated", err)
		}
	})
	events := watchDir(t, d)
	expectQuiet(t, d, events)

	runPeer(t, pathOf(d, "imu"), "create", "16", "512", "in-place")
	expect(t, events, localach.Event{Kind: localach.Appeared, Name: "imu"})
	u := use(t, d, "imu")
	runPeer(t, pathOf(d, "imu"), "put", "5", "64", "0", "1")
	u.receive(5)
}

// A channel whose condition variable was laid out by a glibc from 2.41 on, or by one before it where ours is newer: waiters of that libc cannot be
// woken by us, and we must not try; everything else goes on.
func TestAForeignConditionVariableIsNamedAndNotTouched(t *testing.T) {
	d := privateDir(t)
	createIn(t, d, "imu", 16, 512).Close()
	const before, since = 36, 28 // where wrefs lies in the variable, up to glibc 2.40 and from 2.41
	cond := condOffset(t)
	file, err := os.OpenFile(pathOf(d, "imu"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	swapWords(t, file, cond+before, cond+since)

	u := use(t, d, "imu")
	stat, err := u.c.Stat()
	if err != nil || !stat.ForeignCond {
		t.Errorf("stat: got %+v and %v, want ForeignCond", stat, err)
	}
	image := readWords(t, file, cond)
	for n := range uint64(100) {
		if _, err := u.w.Put(makeFrame(u.buf[:64], 1, n+1)); err != nil {
			t.Fatal(err)
		}
	}
	u.receive(100)
	runPeer(t, pathOf(d, "imu"), "get", "1", "l", "0")
	eventually(t, "the watcher too", func() bool { return u.newest.Load() == 100 })
	if u.w.Stuck() != 0 {
		t.Errorf("a broadcast is under way in a variable that is not ours: %v", u.w.Stuck())
	}
	if got := readWords(t, file, cond); got != image {
		t.Errorf("the variable: got %v, want %v as before", got, image)
	}
}

func condOffset(t *testing.T) int64 {
	t.Helper()
	return int64(runPeer(t, "-", "layout")["cond"])
}

func readWords(t *testing.T, file *os.File, at int64) (words [12]uint32) {
	t.Helper()
	var b [48]byte
	if _, err := file.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	for i := range words {
		words[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return words
}

func swapWords(t *testing.T, file *os.File, a, b int64) {
	t.Helper()
	var first, second [4]byte
	for at, word := range map[int64][]byte{a: first[:], b: second[:]} {
		if _, err := file.ReadAt(word, at); err != nil {
			t.Fatal(err)
		}
	}
	for at, word := range map[int64][]byte{b: first[:], a: second[:]} {
		if _, err := file.WriteAt(word, at); err != nil {
			t.Fatal(err)
		}
	}
}

// libach can create 16 x 212 and then not open it; its creator may be at work in it all the same, and so may we.
func TestAnUnusableGeometryIsNamedAndServed(t *testing.T) {
	d := privateDir(t)
	runPeer(t, pathOf(d, "imu"), "create", "16", "212")
	u := use(t, d, "imu")
	if err := u.c.Geometry().Check(); !errors.Is(err, localach.ErrGeometry) {
		t.Errorf("check of %v: got %v, want ErrGeometry", u.c.Geometry(), err)
	}
	if _, err := d.Create("imu2", localach.CreateConfig{Geometry: u.c.Geometry()}); !errors.Is(err, localach.ErrGeometry) {
		t.Errorf("create: got %v, want ErrGeometry", err)
	}
	runPeer(t, pathOf(d, "imu"), "put", "50", "64-212", "0", "1")
	u.receive(50)
}
