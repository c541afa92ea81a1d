package localach_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/testnet/await"

	"golang.org/x/sys/unix"
)

// startWatcher runs a Watcher until the test ends, and checks that Run returns.
func startWatcher(t testing.TB) *localach.Watcher {
	t.Helper()
	w, err := localach.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := await.Receive(t, "the end of Run", ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: got %v, want context.Canceled", err)
		}
	})
	return w
}

func put(t testing.TB, c *localach.Channel, count uint64) uint64 {
	t.Helper()
	w := c.Writer()
	defer w.Close()
	seq, err := w.Put(makeFrame(make([]byte, 64), 1, count))
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func TestWatcherWakesForEachNewFrame(t *testing.T) {
	c := createIn(t, privateDir(t), "imu", 16, 64)
	w := startWatcher(t)
	woken := make(chan uint64, 1000)
	defer w.Watch(c, func(seq uint64) { woken <- seq }).Close()

	for i := range uint64(50) {
		want := put(t, c, i+1)
		if got := await.Receive(t, "a wake", woken); got != want {
			t.Fatalf("wake: got sequence %d, want %d", got, want)
		}
	}
}

func TestWatcherNoticesFramesOfOtherProcess(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "imu", 16, 64)
	w := startWatcher(t)
	var newest, backwards atomic.Uint64
	defer w.Watch(c, func(seq uint64) {
		if newest.Swap(seq) >= seq {
			backwards.Add(1)
		}
	}).Close()

	runPeer(t, pathOf(d, "imu"), "put", "100", "64", "100000", "1")

	await.True(t, "the last frame noticed", func() bool { return newest.Load() == 100 })
	if got := backwards.Load(); got != 0 {
		t.Errorf("woken %d times without a newer frame", got)
	}
}

func TestLastPollReturnsTimeOfLastPoll(t *testing.T) {
	c := createIn(t, privateDir(t), "imu", 16, 64)
	w := startWatcher(t)
	time.Sleep(20 * time.Millisecond) // nothing is polled meanwhile, which must not affect channels that are watched from now on
	begin := time.Now()
	late := make(chan time.Duration, 1000)
	defer w.Watch(c, func(uint64) { late <- time.Since(w.LastPoll()) }).Close()
	if lastPoll := w.LastPoll(); lastPoll.Before(begin) {
		t.Errorf("got a look %v before the watching began, want one since", begin.Sub(lastPoll))
	}
	await.True(t, "another look", func() bool { return w.LastPoll().After(begin.Add(time.Millisecond)) })

	before := w.LastPoll()
	put(t, c, 1)
	if got := <-late; got <= 0 {
		t.Errorf("inside wake: got a look in %v, want the one before", got)
	}
	await.True(t, "a look after the wake", func() bool { return w.LastPoll().After(before) })
}

func TestWatcherStopsWakingAfterClose(t *testing.T) {
	c := createIn(t, privateDir(t), "imu", 16, 64)
	w := startWatcher(t)
	var first, second atomic.Uint64
	n := w.Watch(c, func(seq uint64) { first.Store(seq) })
	defer w.Watch(c, func(seq uint64) { second.Store(seq) }).Close()

	put(t, c, 1)
	await.True(t, "both woken", func() bool { return first.Load() == 1 && second.Load() == 1 })
	n.Close()
	n.Close()
	put(t, c, 2)
	await.True(t, "the other woken", func() bool { return second.Load() == 2 })
	if got := first.Load(); got != 1 {
		t.Errorf("closed notice was woken with %d", got)
	}
}

func TestWatcherSurvivesTruncatedFile(t *testing.T) {
	d := privateDir(t)
	c, other := createIn(t, d, "imu", 16, 512), createIn(t, d, "joints", 16, 512)
	w := startWatcher(t)
	woken, otherSeq := make(chan uint64, 1000), atomic.Uint64{}
	defer w.Watch(c, func(seq uint64) { woken <- seq }).Close()
	defer w.Watch(other, func(seq uint64) { otherSeq.Store(seq) }).Close()

	if err := os.Truncate(pathOf(d, "imu"), 0); err != nil {
		t.Fatal(err)
	}

	await.Receive(t, "a wake to say that the memory is gone", woken)
	put(t, other, 1)
	await.True(t, "the other channel still watched", func() bool { return otherSeq.Load() == 1 })
}

func TestWatcherKeepsMappingOfClosedChannel(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "imu", 16, 64)
	w := startWatcher(t)
	var newest atomic.Uint64
	n := w.Watch(c, func(seq uint64) { newest.Store(seq) })
	c.Close()

	runPeer(t, pathOf(d, "imu"), "put", "1", "64", "0", "1")
	await.True(t, "the frame noticed", func() bool { return newest.Load() == 1 })
	n.Close()
	defer w.Watch(c, func(uint64) { t.Error("a closed channel was woken") }).Close()
}

func TestWatcherIsSafeForConcurrentUse(t *testing.T) {
	d := privateDir(t)
	w := startWatcher(t)
	var group sync.WaitGroup
	for g := range 4 {
		c := createIn(t, d, fmt.Sprintf("ch%d", g), 16, 64)
		group.Go(func() {
			for i := range uint64(100) {
				woken := make(chan uint64, 8)
				n := w.Watch(c, func(seq uint64) {
					select {
					case woken <- seq:
					default:
					}
				})
				put(t, c, i+1)
				<-woken
				n.Close()
			}
			c.Close()
		})
	}
	await.Return(t, "wakes of all", group.Wait)
}

// cpuTime returns the CPU time of this process.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWatch500 watches 500 channels, 20 of them written at 1 kHz by other processes. The goal is less than 5 %core.
func BenchmarkWatch500(b *testing.B) {
	d := privateDir(b)
	w := startWatcher(b)
	var wakes atomic.Int64
	var written []*localach.Channel
	for i := range 500 {
		name := fmt.Sprintf("ch%03d", i)
		c := createIn(b, d, name, 16, 64)
		defer w.Watch(c, func(uint64) { wakes.Add(1) }).Close()
		if i < 20 {
			startPeer(b, pathOf(d, name), "put", "0", "64", "1000000", "1").ready()
			written = append(written, c)
		}
	}
	frames := func() (sum float64) {
		for _, c := range written {
			sum += float64(c.LastSeq())
		}
		return sum
	}
	await.True(b, "wakes", func() bool { return wakes.Load() > 1000 })
	for b.Loop() {
		cpu, start, before, put := cpuTime(b), time.Now(), wakes.Load(), frames()
		time.Sleep(2 * time.Second)
		elapsed := time.Since(start)
		b.ReportMetric(100*float64(cpuTime(b)-cpu)/float64(elapsed), "%core")
		b.ReportMetric(float64(wakes.Load()-before)/elapsed.Seconds(), "wakes/s")
		b.ReportMetric((frames()-put)/elapsed.Seconds(), "frames/s")
	}
}
