package ring

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/testnet/need"
	"achbridge/wire"
)

// copyFixture is a channel in real shared memory and the snapshots of it.
type copyFixture struct {
	*Snapshots
	t   *testing.T
	ch  *localach.Channel
	w   *localach.Writer
	res Resources
	now atomic.Int64 // the time, nanoseconds
}

func newRing(t *testing.T, size int) *copyFixture {
	t.Helper()
	r := &copyFixture{t: t, ch: newChannel(t, localach.Geometry{FrameCount: 4, FrameSize: size})}
	r.w = r.ch.Writer()
	r.res = Resources{
		Compressor: NewCompressor(), Budget: NewBudget(DefaultBudget), Spawn: func(f func()) { go f() },
		Now: func() time.Duration { return time.Duration(r.now.Load()) },
	}
	r.Snapshots = NewSnapshots(r.ch, &r.res)
	return r
}

// put puts a frame of size bytes, each of which is number.
func (r *copyFixture) put(number uint64, size int) {
	r.t.Helper()
	if _, err := r.w.Put(bytes.Repeat([]byte{byte(number)}, size)); err != nil {
		r.t.Fatal(err)
	}
}

// mustTake takes frame noted or a newer one, with a capture time of one second.
func (r *copyFixture) mustTake(noted uint64) *Snapshot {
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

// compress calls s.Compressed with another Spawn.
func (r *copyFixture) compress(s *Snapshot, codec wire.Codec, spawn func(func()), done func()) (Compressed, bool) {
	usual := r.res.Spawn
	defer func() { r.res.Spawn = usual }()
	r.res.Spawn = spawn
	return s.Compressed(codec, done)
}

// later collects the functions passed to spawn.
type later []func()

func (l *later) spawn(f func()) { *l = append(*l, f) }

func TestFrameIsCopiedOnceForAllLinks(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	a, b := r.mustTake(1), r.mustTake(1)
	r.put(2, 5000) // the next link still requests frame 1
	c := r.mustTake(1)
	if a != b || a != c {
		t.Errorf("got three copies %p %p %p, want one", a, b, c)
	}
	if a.Seq != 1 || len(a.Data) != 5000 || a.Data[100] != 1 || a.CapturedAt != time.Second {
		t.Errorf("got frame %d of %d bytes captured %v, want 1, 5000 and 1 s", a.Seq, len(a.Data), a.CapturedAt)
	}
}

func TestSnapshotInUseOutlivesNewerFrame(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	slow := r.mustTake(1)
	r.put(2, 6000)
	fast := r.mustTake(2)
	if slow.Seq != 1 || slow.Data[100] != 1 || fast.Seq != 2 || fast.Data[100] != 2 || len(fast.Data) != 6000 {
		t.Errorf("got frames %d and %d, want 1 and 2, each with its bytes", slow.Seq, fast.Seq)
	}
}

func TestUnnoticedFrameIsCapturedAtCopyTime(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	r.put(2, 5000)
	r.now.Store(int64(3 * time.Second))
	first := r.mustTake(1)
	r.now.Store(int64(4 * time.Second))
	if second := r.mustTake(2); first.CapturedAt != 3*time.Second || second != first {
		t.Errorf("got frame %d captured %v, want frame 2 once, captured at 3 s", first.Seq, first.CapturedAt)
	}
}

func TestNewestSnapshotIsKeptForLaterLinks(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	first := r.mustTake(1)
	first.Release()
	if again := r.mustTake(1); again != first || again.Data[100] != 1 {
		t.Errorf("got another copy, want the first")
	}
}

func TestDroppedSnapshotIsCopiedAgain(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	held := r.mustTake(1)
	r.Leave(r.Join(func() {}))
	again := r.mustTake(1)
	if again == held || again.Seq != 1 || !bytes.Equal(again.Data, held.Data) {
		t.Errorf("got frame %d, want frame 1 copied again", again.Seq)
	}
	held.Release()
	again.Release()
}

func TestUnreadableChannelReturnsReason(t *testing.T) {
	r := newRing(t, 10_000)
	if _, err := r.take(0, 0); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("before the first frame: got %v, want os.ErrDeadlineExceeded", err)
	}
	r.put(1, 5000)
	r.mustTake(1)
	r.ch.Close()
	if _, err := r.take(2, 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: got %v, want os.ErrClosed", err)
	}
	if s := r.mustTake(1); s.Data[100] != 1 {
		t.Errorf("the frame that was there before is lost")
	}
}

func TestMemoryIsReusedAfterLastRelease(t *testing.T) {
	r := newRing(t, 10_000)
	r.put(1, 5000)
	a, b := r.mustTake(1), r.mustTake(1)
	r.put(2, 5000)
	r.mustTake(2).Release()
	a.Release()
	if len(r.unused) != 0 {
		t.Fatalf("frame 1 was released while a link sends it")
	}
	b.Release()
	r.put(3, 4000)
	if c := r.mustTake(3); c != a || c.Seq != 3 || len(c.Data) != 4000 {
		t.Errorf("got frame %d in new memory, want frame 3 where frame 1 was", c.Seq)
	}
}

func TestUnusedSnapshotMemoryIsLimited(t *testing.T) {
	r := newRing(t, 100_000)
	var held []*Snapshot
	var todo later
	for seq := range uint64(5) {
		r.put(seq+1, 100_000)
		s := r.mustTake(seq + 1)
		r.compress(s, wire.CodecS2, todo.spawn, func() {})
		held = append(held, s)
	}
	for i, s := range held {
		todo[i]()
		s.Release()
	}
	if len(r.unused) > maxUnused || len(r.unusedBytes) > maxUnusedBytes {
		t.Errorf("got %d frames and %d forms kept, want at most %d and %d", len(r.unused), len(r.unusedBytes), maxUnused, maxUnusedBytes)
	}
	r.put(6, 100_000)
	if s := r.mustTake(6); s.Data[0] != 6 {
		t.Errorf("got a frame of %d, want the sixth", s.Data[0])
	}
}

func TestFrameIsCompressedOnceForThreeLinks(t *testing.T) {
	for _, codec := range Codecs {
		r := newRing(t, 200_000)
		r.put(1, 200_000)
		want := r.mustTake(1)
		var packings, links sync.WaitGroup
		var begun atomic.Int32
		r.res.Spawn = func(f func()) { begun.Add(1); packings.Go(f) }
		var forms [3][]byte
		for i := range forms {
			links.Go(func() {
				s := r.mustTake(1)
				defer s.Release()
				woken := make(chan struct{}, 1)
				f, ready := s.Compressed(codec, func() { woken <- struct{}{} })
				if !ready {
					<-woken
					f, ready = s.Compressed(codec, nil)
				}
				var u Decompressor
				raw, err := u.Decompress(codec, len(s.Data), len(s.Data), f.Data)
				if !ready || err != nil || !bytes.Equal(raw, want.Data) {
					t.Errorf("got ready %v, %v, want the frame compressed", ready, err)
				}
				forms[i] = f.Data
			})
		}
		links.Wait()
		packings.Wait()
		if &forms[0][0] != &forms[1][0] || &forms[0][0] != &forms[2][0] || begun.Load() != 1 {
			t.Errorf("codec %d: compressed %d times, want once for all links", codec, begun.Load())
		}
		want.Release()
		r.put(2, 200_000)
		r.mustTake(2)
		if len(r.unused) != 1 || len(r.unusedBytes) != 1 {
			t.Errorf("got %d frames and %d forms back, want one of each", len(r.unused), len(r.unusedBytes))
		}
	}
}

func TestReleaseDuringCompressionLeaksNothing(t *testing.T) {
	r := newRing(t, 100_000)
	r.put(1, 100_000)
	s := r.mustTake(1)
	var todo later
	called := 0
	if _, ready := r.compress(s, wire.CodecS2, todo.spawn, func() { called++ }); ready {
		t.Fatal("ready before it was made")
	}
	s.Release()
	r.put(2, 100_000)
	r.mustTake(2).Release()
	if len(r.unused) != 0 {
		t.Fatal("frame 1 was released during its compression")
	}
	todo[0]()
	if called != 1 || len(r.unused) != 1 || len(r.unusedBytes) != 1 {
		t.Errorf("got done %d times, %d frames and %d forms back, want one of each", called, len(r.unused), len(r.unusedBytes))
	}
}

func TestIncompressibleSnapshotIsReadyUncompressed(t *testing.T) {
	r := newRing(t, 100_000)
	if _, err := r.w.Put(payloads()["random 1 MB"][:100_000]); err != nil {
		t.Fatal(err)
	}
	s := r.mustTake(1)
	for _, codec := range Codecs {
		var todo later
		r.compress(s, codec, todo.spawn, func() {})
		todo[0]()
		if f, ready := s.Compressed(codec, nil); !ready || f.Data != nil {
			t.Errorf("codec %d: got ready %v and %d bytes, want ready and none", codec, ready, len(f.Data))
		}
	}
	if f, ready := s.Compressed(wire.CodecNone, nil); !ready || f.Data != nil {
		t.Errorf("without codec: got ready %v and %d bytes, want ready and none", ready, len(f.Data))
	}
}

func TestSnapshotsAllocateNothingInSteadyState(t *testing.T) {
	need.NoRace(t)
	r := newRing(t, 10_000)
	content := bytes.Repeat([]byte("image"), 2000)
	var work func()
	r.res.Spawn = func(f func()) { work = f }
	done := func() {}
	var seq uint64
	step := func() {
		if _, err := r.w.Put(content); err != nil {
			t.Fatal(err)
		}
		seq++
		s := r.mustTake(seq)
		for _, codec := range Codecs {
			s.Compressed(codec, done)
			work()
		}
		s.Release()
	}
	for range 4 {
		step()
	}
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("got %v allocations a frame, want none", n)
	}
}

// Links that join and leave while a writer puts frames get whole frames, none older than the requested one.
func TestManyLinksSeeWholeFrames(t *testing.T) {
	const frames, size = 300, 20_000
	r := newRing(t, size)
	r.put(1, size)
	var links, packings sync.WaitGroup
	r.res.Spawn = packings.Go
	for i := range 3 {
		codec := Codecs[i%len(Codecs)]
		links.Go(func() {
			for seq := uint64(0); seq < frames; {
				s, err := r.take(r.ch.LastSeq(), 0)
				if err != nil {
					continue // the writer has the lock
				}
				if s.Seq < seq {
					t.Errorf("got frame %d after %d", s.Seq, seq)
				}
				seq = s.Seq
				s.Compressed(codec, func() {})
				if !bytes.Equal(s.Data[16:], bytes.Repeat([]byte{byte(seq)}, size-16)) {
					t.Errorf("frame %d is torn", seq)
				}
				s.Release()
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
