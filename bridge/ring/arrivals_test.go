package ring

import (
	"os"
	"testing"
	"time"

	"achbridge/localach"
)

// newChannel creates a channel in a temporary directory.
func newChannel(t *testing.T, g localach.Geometry) *localach.Channel {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "bridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ch, err := localach.Dir(dir).Create("imu", localach.CreateConfig{Geometry: g})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ch.Close() })
	return ch
}

// source is a Source that reports the frame numbers given by the test.
type source struct {
	begin  func() // called by NewData; may be nil
	report func(seq uint64)
}

func (s *source) NewData(_ *localach.Channel, f func(uint64)) (stop func()) {
	if s.report = f; s.begin != nil {
		s.begin()
	}
	return func() { s.report = func(uint64) {} }
}

// clock is a Clock that the test sets.
type clock struct{ now, lastPoll time.Duration }

func (c *clock) clock() Clock {
	return Clock{Now: func() time.Duration { return c.now }, LastPoll: func() time.Duration { return c.lastPoll }}
}

func TestArrivalsNoticeFramePutWhileWatchBegins(t *testing.T) {
	ch, c := newChannel(t, localach.Geometry{}), clock{now: time.Second, lastPoll: time.Second}
	a := NewArrivals(ch, c.clock())
	wakes := 0
	a.Watch(&source{begin: func() { ch.Writer().Put([]byte("meanwhile")) }}, func() { wakes++ })
	if got := a.Newest(); got.Seq != 1 || wakes != 1 {
		t.Errorf("got %+v, %v notifications; want frame 1 and one notification", got, wakes)
	}
}

func TestArrivalsKeepFrameReportedDuringWatch(t *testing.T) {
	s, c := &source{}, clock{now: time.Second, lastPoll: time.Second}
	s.begin = func() { s.report(5) }
	a := NewArrivals(newChannel(t, localach.Geometry{}), c.clock())
	a.Watch(s, func() {})
	if got := a.Newest().Seq; got != 5 {
		t.Errorf("newest frame %d, want 5", got)
	}
	s.report(2) // the channel was created again
	if got := a.Newest().Seq; got != 2 {
		t.Errorf("newest frame %d, want 2", got)
	}
}

func TestArrivalsNotifyOnceUntilCollect(t *testing.T) {
	s, c := &source{}, clock{now: time.Second, lastPoll: time.Second}
	a := NewArrivals(newChannel(t, localach.Geometry{}), c.clock())
	calls := 0
	a.Wake() // has no effect before Watch
	a.Watch(s, func() { calls++ })
	for _, step := range []struct {
		do   func()
		want int
	}{
		{func() { s.report(1) }, 1},
		{func() { s.report(2) }, 1},
		{a.Wake, 1},
		{func() { a.Collect(); s.report(3) }, 2},
		{func() { a.Collect(); a.Wake() }, 3},
		{func() { a.Collect(); a.Stop(); s.report(4) }, 3},
	} {
		if step.do(); calls != step.want {
			t.Fatalf("notified %d times, want %d", calls, step.want)
		}
	}
}

func TestArrivalsKnowCaptureTimes(t *testing.T) {
	s, c := &source{}, clock{}
	a := NewArrivals(newChannel(t, localach.Geometry{FrameCount: 4, FrameSize: 8}), c.clock())
	a.LogAll()
	a.Watch(s, func() {})
	for i, seq := range []uint64{2, 3, 6, 7, 8} {
		c.now = time.Duration(i+1) * time.Second
		c.lastPoll = c.now
		s.report(seq)
	}
	for seq, want := range map[uint64]time.Duration{2: 0, 3: 0, 4: 3 * time.Second, 6: 3 * time.Second, 8: 5 * time.Second} {
		if got := a.CapturedAt(seq); got != want {
			t.Errorf("CapturedAt(%d) = %v, want %v", seq, got, want)
		}
	}
}

func TestUseSlotSkipsEarlierFrames(t *testing.T) {
	s, c := &source{}, clock{now: time.Second, lastPoll: time.Second}
	a := NewArrivals(newChannel(t, localach.Geometry{}), c.clock())
	a.Watch(s, func() {})
	if at, passed := a.UseSlot(c.now, 100*time.Millisecond); at != 1100*time.Millisecond || passed != 0 {
		t.Errorf("UseSlot = %v, %d; want 1.1s, 0", at, passed)
	}
	s.report(1)
	c.now += 150 * time.Millisecond
	s.report(2)
	if at, passed := a.UseSlot(c.now, 100*time.Millisecond); at != 1200*time.Millisecond || passed != 1 {
		t.Errorf("UseSlot = %v, %d; want 1.2s, 1", at, passed)
	}
	if got := a.SetInterval(c.now, time.Millisecond).SlotAt; got != c.now+time.Millisecond {
		t.Errorf("SetInterval(1ms): the slot begins at %v, want it 1ms from now", got)
	}
	if at, _ := a.UseSlot(c.now, 0); at != 0 {
		t.Errorf("UseSlot without limit = %v, want 0", at)
	}
}
