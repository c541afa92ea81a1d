package bridge

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/wire"
)

// ring is a channel in real shared memory and the snapshots of it.
type ring struct {
	*channel
	*snapshots
	now atomic.Int64 // the time, nanoseconds
}

func newRing(t *testing.T, size int) *ring {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "bridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ch, err := localach.Dir(dir).Create("camera", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: size}})
	if err != nil {
		t.Fatal(err)
	}
	r := &ring{channel: &channel{t: t, ch: ch, w: ch.Writer()}}
	t.Cleanup(r.close)
	r.snapshots = newSnapshots(ch, newCompressor(), func() time.Duration { return time.Duration(r.now.Load()) })
	return r
}

// mustTake takes frame noted, seen one second after the start.
func (r *ring) mustTake(noted uint64) *snapshot {
	r.t.Helper()
	s, err := r.take(noted, time.Second)
	for err == errCopying {
		done := make(chan struct{})
		r.await(func() { close(done) })
		<-done
		s, err = r.take(noted, time.Second)
	}
	if err != nil {
		r.t.Fatalf("frame %d: %v", noted, err)
	}
	return s
}

// later collects what it is asked to spawn.
type later []func()

func (l *later) spawn(f func()) { *l = append(*l, f) }

func TestFrameIsCopiedOnceForAllWhoSendIt(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	a, b := r.mustTake(1), r.mustTake(1)
	r.put(2, 5000) // not noted by the link that comes now
	c := r.mustTake(1)
	if a != b || a != c {
		t.Errorf("got three copies %p %p %p, want one", a, b, c)
	}
	if a.seq != 1 || len(a.data) != 5000 || a.data[100] != 1 || a.captured != time.Second {
		t.Errorf("got frame %d of %d bytes captured %v, want 1, 5000 and 1 s", a.seq, len(a.data), a.captured)
	}
}

func TestFrameUnderWayStaysWhenANewerOneComes(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	slow := r.mustTake(1)
	r.put(2, 6000)
	fast := r.mustTake(2)
	if slow.seq != 1 || slow.data[100] != 1 || fast.seq != 2 || fast.data[100] != 2 || len(fast.data) != 6000 {
		t.Errorf("got frames %d and %d, want 1 and 2, each with its bytes", slow.seq, fast.seq)
	}
}

func TestFrameNewerThanItsNoteIsCapturedWhenItIsCopied(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	r.put(2, 5000)
	r.now.Store(int64(3 * time.Second))
	first := r.mustTake(1)
	r.now.Store(int64(4 * time.Second))
	if second := r.mustTake(2); first.captured != 3*time.Second || second != first {
		t.Errorf("got frame %d captured %v, want frame 2 once, captured at 3 s", first.seq, first.captured)
	}
}

func TestNewestIsKeptForWhoComesLater(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	first := r.mustTake(1)
	first.release()
	if again := r.mustTake(1); again != first || again.data[100] != 1 {
		t.Errorf("got another copy, want the first")
	}
}

func TestForgottenFrameIsCopiedAgain(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	held := r.mustTake(1)
	r.leave(r.join(func() {}))
	again := r.mustTake(1)
	if again == held || again.seq != 1 || !bytes.Equal(again.data, held.data) {
		t.Errorf("got frame %d, want frame 1 copied again", again.seq)
	}
	held.release()
	again.release()
}

func TestChannelThatCannotBeReadSaysWhy(t *testing.T) {
	r := newRing(t, 10_000)
	if _, err := r.take(0, 0); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("before the first frame: got %v, want os.ErrDeadlineExceeded", err)
	}
	r.put(1, 5000)
	r.mustTake(1)
	r.close()
	if _, err := r.take(2, 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: got %v, want os.ErrClosed", err)
	}
	if s := r.mustTake(1); s.data[100] != 1 {
		t.Errorf("the frame that was there before is lost")
	}
}

func TestMemoryComesBackAfterTheLastRelease(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	a, b := r.mustTake(1), r.mustTake(1)
	r.put(2, 5000)
	r.mustTake(2).release()
	a.release()
	if len(r.unused) != 0 {
		t.Fatalf("frame 1 is given up while somebody sends it")
	}
	b.release()
	r.put(3, 4000)
	if c := r.mustTake(3); c != a || c.seq != 3 || len(c.data) != 4000 {
		t.Errorf("got frame %d in new memory, want frame 3 where frame 1 was", c.seq)
	}
}

func TestMemoryOfFramesOfManyAgesIsNotKept(t *testing.T) {
	r := newRing(t, 100_000)
	var held []*snapshot
	var todo later
	for seq := range uint64(5) {
		r.put(seq+1, 100_000)
		s := r.mustTake(seq + 1)
		s.packed(wire.CodecS2, todo.spawn, func() {})
		held = append(held, s)
	}
	for i, s := range held {
		todo[i]()
		s.release()
	}
	if len(r.unused) > mostUnused || len(r.spare) > mostSpare {
		t.Errorf("got %d frames and %d forms kept, want at most %d and %d", len(r.unused), len(r.spare), mostUnused, mostSpare)
	}
	r.put(6, 100_000)
	if s := r.mustTake(6); s.data[0] != 6 {
		t.Errorf("got a frame of %d, want the sixth", s.data[0])
	}
}

func TestThreeLinksHaveAFramePackedOnce(t *testing.T) {
	for _, codec := range codecs {
		r := newRing(t, 200_000)
		r.put(1, 200_000)
		want := r.mustTake(1)
		var packings, links sync.WaitGroup
		var begun atomic.Int32
		var forms [3][]byte
		for i := range forms {
			links.Go(func() {
				s := r.mustTake(1)
				defer s.release()
				woken := make(chan struct{}, 1)
				f, ready := s.packed(codec, func(f func()) { begun.Add(1); packings.Go(f) }, func() { woken <- struct{}{} })
				if !ready {
					<-woken
					f, ready = s.packed(codec, nil, nil)
				}
				var u unpacker
				raw, err := u.unpack(codec, len(s.data), len(s.data), f.data)
				if !ready || err != nil || !bytes.Equal(raw, want.data) {
					t.Errorf("got ready %v, %v, want the frame packed", ready, err)
				}
				forms[i] = f.data
			})
		}
		links.Wait()
		packings.Wait()
		if &forms[0][0] != &forms[1][0] || &forms[0][0] != &forms[2][0] || begun.Load() != 1 {
			t.Errorf("codec %d: packed %d times, want once for all", codec, begun.Load())
		}
		want.release()
		r.put(2, 200_000)
		r.mustTake(2)
		if len(r.unused) != 1 || len(r.spare) != 1 {
			t.Errorf("got %d frames and %d forms back, want one of each", len(r.unused), len(r.spare))
		}
	}
}

func TestLinkThatLetsGoBeforeItsFrameIsPackedLeavesNothing(t *testing.T) {
	r := newRing(t, 100_000)
	r.put(1, 100_000)
	s := r.mustTake(1)
	var todo later
	called := 0
	if _, ready := s.packed(wire.CodecS2, todo.spawn, func() { called++ }); ready {
		t.Fatal("ready before it was made")
	}
	s.release()
	r.put(2, 100_000)
	r.mustTake(2).release()
	if len(r.unused) != 0 {
		t.Fatal("frame 1 is given up while it is being packed")
	}
	todo[0]()
	if called != 1 || len(r.unused) != 1 || len(r.spare) != 1 {
		t.Errorf("got done %d times, %d frames and %d forms back, want one of each", called, len(r.unused), len(r.spare))
	}
}

func TestFrameThatDoesNotGetSmallerIsReadyAsItIs(t *testing.T) {
	r := newRing(t, 100_000)
	if _, err := r.w.Put(payloads()["random 1 MB"][:100_000]); err != nil {
		t.Fatal(err)
	}
	s := r.mustTake(1)
	for _, codec := range codecs {
		var todo later
		s.packed(codec, todo.spawn, func() {})
		todo[0]()
		if f, ready := s.packed(codec, nil, nil); !ready || f.data != nil {
			t.Errorf("codec %d: got ready %v and %d bytes, want ready and none", codec, ready, len(f.data))
		}
	}
	if f, ready := s.packed(wire.CodecNone, nil, nil); !ready || f.data != nil {
		t.Errorf("without codec: got ready %v and %d bytes, want ready and none", ready, len(f.data))
	}
}

func TestFramesOfALinkAllocateNothing(t *testing.T) {
	skipUnderRace(t)
	r := newRing(t, 10_000)
	content := bytes.Repeat([]byte("image"), 2000)
	var work func()
	spawn, done := func(f func()) { work = f }, func() {}
	var seq uint64
	step := func() {
		if _, err := r.w.Put(content); err != nil {
			t.Fatal(err)
		}
		seq++
		s := r.mustTake(seq)
		for _, codec := range codecs {
			s.packed(codec, spawn, done)
			work()
		}
		s.release()
	}
	for range 4 {
		step()
	}
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("got %v allocations a frame, want none", n)
	}
}

// Links that come and go while a writer puts see whole frames, none older than
// what they asked for.
func TestManyLinksSeeWholeFrames(t *testing.T) {
	const frames, size = 300, 20_000
	r := newRing(t, size)
	r.put(1, size)
	var links, packings sync.WaitGroup
	for i := range 3 {
		codec := codecs[i%len(codecs)]
		links.Go(func() {
			for seq := uint64(0); seq < frames; {
				s, err := r.take(r.channel.ch.LastSeq(), 0)
				if err != nil {
					continue // the writer has the lock
				}
				if s.seq < seq {
					t.Errorf("got frame %d after %d", s.seq, seq)
				}
				seq = s.seq
				s.packed(codec, packings.Go, func() {})
				if !bytes.Equal(s.data[16:], bytes.Repeat([]byte{byte(seq)}, size-16)) {
					t.Errorf("frame %d is torn", seq)
				}
				s.release()
			}
		})
	}
	for number := uint64(2); number <= frames; number++ {
		r.put(number, size)
	}
	links.Wait()
	packings.Wait()
	if users := r.newest.users; users != 1 {
		t.Errorf("got %d users of the newest frame when all are gone, want the cache alone", users)
	}
}
