package bridge

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/pacing"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/localach"
	"achbridge/testnet/need"
)

// waits is a subscription that always has a newer frame of size bytes to send,
// and whose mirror's frame was captured at had.
func waits(level, size int, had time.Duration) *subscription {
	return &subscription{
		export: &export{
			channel: fmt.Sprintf("%d of %d bytes from %v", level, size, had), qos: rule.QoS{Priority: rule.Priority(level + 1)}, book: &ledger.Book{},
		},
		size: size, captured: had, loaded: 1, known: ring.Arrival{Seq: 2, CapturedAt: time.Second},
	}
}

// linkOf is a link with these subscriptions.
func linkOf(list ...*subscription) *link {
	l := &link{}
	l.control = pacing.NewPacer(&l.flight, nil)
	for _, sub := range list {
		l.rouse(sub)
	}
	return l
}

func inLine(l *link, now time.Duration) (list []*subscription) {
	var queue queue
	l.fillQueue(&queue, now)
	for t, ok := queue.first(); ok; t, ok = queue.next() {
		list = append(list, t.sub)
	}
	return list
}

func TestTurnsGoByPriorityAndThenByAgeSquaredPerByte(t *testing.T) {
	now := time.Second + 50*milli
	want := []*subscription{
		waits(7, 1000, now-milli),
		waits(6, 100, now-9*milli),
		waits(4, 1000-entryOverhead, now-41*milli),   // 1.68 of what the next ones have
		waits(4, 250-entryOverhead, now-20*milli),    // 1.6
		waits(4, 1000-entryOverhead, now-20*milli),   // 0.4
		waits(4, 10_000-entryOverhead, now-60*milli), // 0.36
		waits(0, 10, 0),
	}
	l := linkOf()
	for _, i := range []int{3, 6, 0, 4, 1, 5, 2} {
		l.rouse(want[i])
	}
	if got := inLine(l, now); !slices.Equal(got, want) {
		t.Errorf("got the order %v, want %v", names(got), names(want))
	}
}

func names(list []*subscription) (names []string) {
	for _, sub := range list {
		names = append(names, sub.channel)
	}
	return names
}

func TestFrameThatIsOwedGoesAtTheLowestPriority(t *testing.T) {
	now := time.Minute // far past every budget
	owed, fresh := waits(7, 10, 0), waits(1, 1000, 0)
	fresh.known.CapturedAt = now
	if got := inLine(linkOf(owed, fresh), now); !slices.Equal(got, []*subscription{fresh, owed}) {
		t.Errorf("got the order %v, want the frame in time first", names(got))
	}
}

// All priorities always have something to send.
func TestEveryLowerPriorityIsSureOfItsShare(t *testing.T) {
	const packets = 100_000
	now := time.Second + 50*milli
	l := linkOf()
	for level := range levels {
		l.rouse(waits(level, 1000, now-20*milli))
	}
	var bytes [levels]float64
	longest, last := [levels]int{}, [levels]int{}
	var queue queue
	for i := range packets {
		l.fillQueue(&queue, now)
		level := queue.level
		bytes[level] += 1.0 / packets
		longest[level], last[level] = max(longest[level], i-last[level]), i
		l.shares.sent(&queue, [levels]int{}, shareDue)
	}
	for level, got := range bytes[:levels-1] {
		// It gets 5 % of what more urgent ones send: of all but its own, the lowest.
		if got < 0.033 || got > lowerShare {
			t.Errorf("priority %d got %.1f %% of the bytes, want nearly %.0f %%", level, 100*got, 100*lowerShare)
		}
		if longest[level] > 40 {
			t.Errorf("priority %d had no turn for %d packets", level, longest[level])
		}
	}
	if got := bytes[levels-1]; got < 0.6 {
		t.Errorf("priority 7 got %.1f %% of the bytes, want the rest", 100*got)
	}
}

func TestWhatDoesNotWaitEarnsNothing(t *testing.T) {
	now := time.Second + 50*milli
	urgent, seldom := waits(7, 1000, now-20*milli), waits(0, 1000, now-20*milli)
	l := linkOf(urgent, seldom)
	var queue queue
	seldom.loaded = 2
	for range 1000 {
		l.fillQueue(&queue, now)
		l.shares.sent(&queue, [levels]int{}, shareDue)
	}
	seldom.loaded = 1
	l.rouse(seldom)
	for i := range 19 {
		if l.fillQueue(&queue, now); queue.entries[0].sub == seldom {
			t.Fatalf("it goes first after %d packets, on a share from before it waited", i)
		}
		l.shares.sent(&queue, [levels]int{}, shareDue)
	}
}

// The datagram is one of a lower priority's turn, but mostly filled by others.
func TestPriorityPaysForWhatItSpends(t *testing.T) {
	s := shares{0: 1200, 4: 600}
	s.sent(&queue{entries: make([]queued, 3), level: 0, waits: [levels]bool{0: true, 4: true, 7: true}}, [levels]int{0: 90, 4: 300, 7: 700}, 1150)
	if want := (shares{0: 1200 - 90 - 60, 4: 300}); s != want {
		t.Errorf("got %v, want %v", s, want)
	}
}

// stream is one channel of several that share a link.
type stream struct {
	size   int
	period time.Duration
	qos    rule.QoS
}

// share runs channels over a link and returns how many frames of each came in
// the time after the first two seconds.
func (w *world) share(link string, long time.Duration, streams ...stream) (frames []float64) {
	loads, b := []load{}, &bench{world: w}
	for i, s := range streams {
		loads = append(loads, load{channel: fmt.Sprintf("c%d", i), size: s.size, period: s.period, qos: s.qos})
	}
	b.s = scenario{link: link, loads: loads}
	b.params = mustParams(w.t, link)
	channels := b.connect()
	begin := time.Now()
	var work sync.WaitGroup
	for i, l := range loads {
		work.Go(func() { l.write(channels[i], b.sources[0], begin, warmUp+long) })
	}
	time.Sleep(warmUp)
	for _, l := range loads {
		frames = append(frames, -float64(lastSeq(w.t, b.pc, b.mirrorOf(l))))
	}
	time.Sleep(long)
	for i, l := range loads {
		frames[i] += float64(lastSeq(w.t, b.pc, b.mirrorOf(l)))
	}
	work.Wait()
	return frames
}

func TestUrgentChannelThatFillsTheLinkLeavesTheOthersTheirShare(t *testing.T) {
	measured(t)
	inWorld(t, func(w *world) {
		flood := func(level int) stream { return stream{1000, milli, rule.QoS{Priority: rule.Priority(level + 1)}} }
		got := w.share("delay=10ms,rate=1mbit,queue=32KiB", 20*second, flood(7), flood(4), flood(0))
		all := got[0] + got[1] + got[2]
		for i, want := range []float64{0.907, 0.0454, 0.0476} {
			if share := got[i] / all; math.Abs(share/want-1) > 0.1 {
				t.Errorf("channel %d got %.2f %% of the frames, want %.2f %%", i, 100*share, 100*want)
			}
		}
		if all < 0.8*20*1e6/8/1060 {
			t.Errorf("%.0f frames came in 20 s: the link was not full", all)
		}
	})
}

// Age squared per byte gives channels that always have something newer a rate
// that goes with the inverse root of their frames' size.
func TestEqualsShareByTheRootOfTheirSize(t *testing.T) {
	const small, large = 300, 4800
	now := time.Second
	l := linkOf()
	for i := range 40 {
		l.rouse(waits(4, []int{small, large}[i%2]-entryOverhead, now))
	}
	frames := map[int]float64{}
	for range 10_000 {
		sub := inLine(l, now)[0]
		frames[sub.size+entryOverhead]++
		now += time.Duration(sub.size+entryOverhead) * time.Microsecond
		sub.captured = now
		for _, sub := range l.active {
			sub.known.CapturedAt = now
		}
	}
	if ratio := frames[small] / frames[large]; math.Abs(ratio/4-1) > 0.05 {
		t.Errorf("the small channels got %.2f frames for one of the large, which are 16 times as long; want 4", ratio)
	}
}

func TestEqualChannelsShareEqually(t *testing.T) {
	measured(t)
	inWorld(t, func(w *world) {
		s := stream{1000, milli, rule.QoS{}}
		got := w.share("delay=10ms,rate=1mbit,queue=32KiB", 20*second, s, s, s, s)
		for i, n := range got {
			if math.Abs(n/got[0]-1) > 0.02 {
				t.Errorf("channel %d got %.0f frames, the first %.0f", i, n, got[0])
			}
		}
	})
}

// The first one's frames take many parts, or are packed while others are sent.
func TestNobodyStarves(t *testing.T) {
	for way, least := range map[rule.Compress]float64{rule.CompressNone: 8, rule.CompressAuto: 100} {
		t.Run(way.String(), func(t *testing.T) {
			if way == rule.CompressAuto {
				need.Long(t)
			}
			inWorld(t, func(w *world) {
				streams := []stream{{20_000, 100 * milli, rule.QoS{Priority: 1, Budget: 20 * second, Compress: way}}, {64, second, rule.QoS{Priority: 1}}, {64, second, rule.QoS{}}}
				for range 10 {
					streams = append(streams, stream{200, milli, rule.QoS{Priority: priority7}}, stream{2000, 5 * milli, rule.QoS{Priority: priority7}})
				}
				for i, n := range w.share("delay=5ms,rate=2mbit,queue=32KiB", 20*second, streams...) {
					switch {
					case i == 0 && n < least: // 5 % of 2 Mbit/s, shared with another
						t.Errorf("%.0f large frames of the lowest priority came in 20 s, want %.0f at least", n, least)
					case i > 0 && n < 15:
						t.Errorf("%.0f frames of channel %d came in 20 s, want 15 at least", n, i)
					}
				}
			})
		})
	}
}

// Every large frame takes longer than its budget, and a newer one is there by then. What has begun is finished, so they come;
// they take four fifths of the link, as the square roots of the sizes say.
func TestHopelessChannelDoesNotStarveItsEquals(t *testing.T) {
	measured(t)
	inWorld(t, func(w *world) {
		hopeless := stream{30_000, 100 * milli, rule.QoS{Compress: rule.CompressNone}}
		got := w.share("delay=10ms,rate=1mbit,queue=32KiB", 10*second, hopeless, stream{1000, milli, rule.QoS{}}, stream{64, 100 * milli, rule.QoS{}})
		if got[0] < 25 || got[1] < 80 || got[2] < 80 {
			t.Errorf("%.0f large frames came in 10 s, and %.0f and %.0f others, want 25, 80 and 80 at least", got[0], got[1], got[2])
		}
	})
}

// Its copy was made in the meantime: as long as it may not be loaded it must not be offered
// either, or the pump goes round and round.
func TestChannelWhoseMemoryIsWantedForOthersOffersNothing(t *testing.T) {
	now := time.Second
	sub := waits(0, 100_000, 0)
	ch, err := testDir(t).Create("map", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 2, FrameSize: 100_000}})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if _, err := ch.Writer().Put(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	sub.copies = ring.NewSnapshots(ch, &ring.Resources{Budget: ring.NewBudget(ring.DefaultBudget), Spawn: func(f func()) { go f() }, Now: func() time.Duration { return now }})
	copied := make(chan struct{})
	if _, _, err := sub.request.Take(sub.copies, ring.Arrival{Seq: 1}, func() { close(copied) }); err != nil {
		t.Fatal(err)
	}
	<-copied
	if _, ok := sub.offer(now); !ok {
		t.Fatal("a frame that has been copied is not offered")
	}
	sub.letGo(now)
	if _, ok := sub.offer(now); ok {
		t.Error("a frame is offered though there is no memory for it")
	}
	if _, ok := sub.offer(now + ring.AfterNoMemory); !ok {
		t.Error("no frame is offered once there may be memory again")
	}
}
