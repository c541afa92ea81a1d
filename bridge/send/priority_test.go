package send

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/pacing"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/localach"
)

const ms = time.Millisecond

// waits returns a subscription that always has a newer frame of size bytes to send. The mirror's frame was captured at
// had.
func waits(level, size int, had time.Duration) *Subscription {
	return &Subscription{
		qos: rule.QoS{Priority: rule.Priority(level + 1)}, counters: &ledger.SenderCounters{},
		size: size, current: frame{captured: had}, loaded: 1, lastCollected: ring.Arrival{Seq: 2, CapturedAt: time.Second},
	}
}

// linkOf returns a link with these subscriptions.
func linkOf(list ...*Subscription) *Link {
	l := &Link{}
	l.control = pacing.NewPacer(&l.sentPackets, nil)
	for _, sub := range list {
		l.activate(sub)
	}
	return l
}

func inLine(l *Link, now time.Duration) (list []*Subscription) {
	var queue queue
	l.fillQueue(&queue, now)
	for t, ok := queue.first(); ok; t, ok = queue.next() {
		list = append(list, t.sub)
	}
	return list
}

func TestQueueOrderIsPriorityThenAgeSquaredPerByte(t *testing.T) {
	now := time.Second + 50*ms
	want := []*Subscription{
		waits(7, 1000, now-ms),
		waits(6, 100, now-9*ms),
		waits(4, 1000-entryOverhead, now-41*ms),   // 1.68 times the age squared per byte of the next
		waits(4, 250-entryOverhead, now-20*ms),    // 1.6
		waits(4, 1000-entryOverhead, now-20*ms),   // 0.4
		waits(4, 10_000-entryOverhead, now-60*ms), // 0.36
		waits(0, 10, 0),
	}
	l := linkOf()
	for _, i := range []int{3, 6, 0, 4, 1, 5, 2} {
		l.activate(want[i])
	}
	if got := inLine(l, now); !slices.Equal(got, want) {
		t.Errorf("got the order %v, want %v", names(got), names(want))
	}
}

func names(list []*Subscription) (names []string) {
	for _, sub := range list {
		names = append(names, fmt.Sprintf("%v of %d bytes from %v", sub.qos.Priority, sub.size, sub.current.captured))
	}
	return names
}

func TestLastValueHasLowestPriority(t *testing.T) {
	now := time.Minute // far past every budget
	lastValue, fresh := waits(7, 10, 0), waits(1, 1000, 0)
	fresh.lastCollected.CapturedAt = now
	if got := inLine(linkOf(lastValue, fresh), now); !slices.Equal(got, []*Subscription{fresh, lastValue}) {
		t.Errorf("got the order %v, want the frame in time first", names(got))
	}
}

// All priorities always have something to send.
func TestLowerPrioritiesHaveGuaranteedShare(t *testing.T) {
	const packets = 100_000
	now := time.Second + 50*ms
	l := linkOf()
	for level := range levels {
		l.activate(waits(level, 1000, now-20*ms))
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
		// A priority gets 5 % of the bytes of higher ones. For the lowest, these are all bytes but its own.
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

func TestIdlePriorityEarnsNoShare(t *testing.T) {
	now := time.Second + 50*ms
	urgent, seldom := waits(7, 1000, now-20*ms), waits(0, 1000, now-20*ms)
	l := linkOf(urgent, seldom)
	var queue queue
	seldom.loaded = 2
	for range 1000 {
		l.fillQueue(&queue, now)
		l.shares.sent(&queue, [levels]int{}, shareDue)
	}
	seldom.loaded = 1
	l.activate(seldom)
	for i := range 19 {
		if l.fillQueue(&queue, now); queue.entries[0].sub == seldom {
			t.Fatalf("priority 0 goes first after %d packets, want no share for its idle time", i)
		}
		l.shares.sent(&queue, [levels]int{}, shareDue)
	}
}

// A datagram is sent in the turn of a lower priority, but frames of other priorities use most of it.
func TestPriorityPaysForSentBytes(t *testing.T) {
	s := shares{0: 1200, 4: 600}
	s.sent(&queue{entries: make([]queued, 3), level: 0, waits: [levels]bool{0: true, 4: true, 7: true}}, [levels]int{0: 90, 4: 300, 7: 700}, 1150)
	if want := (shares{0: 1200 - 90 - 60, 4: 300}); s != want {
		t.Errorf("got %v, want %v", s, want)
	}
}

// With age squared per byte, channels that always have a newer frame get rates proportional to the inverse square root
// of their frame sizes.
func TestEqualPrioritiesShareByRootOfFrameSize(t *testing.T) {
	const small, large = 300, 4800
	now := time.Second
	l := linkOf()
	for i := range 40 {
		l.activate(waits(4, []int{small, large}[i%2]-entryOverhead, now))
	}
	frames := map[int]float64{}
	for range 10_000 {
		sub := inLine(l, now)[0]
		frames[sub.size+entryOverhead]++
		now += time.Duration(sub.size+entryOverhead) * time.Microsecond
		sub.current.captured = now
		for _, sub := range l.active {
			sub.lastCollected.CapturedAt = now
		}
	}
	if ratio := frames[small] / frames[large]; math.Abs(ratio/4-1) > 0.05 {
		t.Errorf("the small channels got %.2f frames for one of the large, which are 16 times as long; want 4", ratio)
	}
}

// The channel's frame is copied already, but must not be loaded while memory is reserved for other channels. It must not
// be offered either, or the send loop would not stop.
func TestEvictedChannelOffersNoFrame(t *testing.T) {
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
	sub.source.copies = ring.NewSnapshots(ch, &ring.Resources{Budget: ring.NewBudget(ring.DefaultBudget), Spawn: func(f func()) { go f() }, Now: func() time.Duration { return now }})
	copied := make(chan struct{})
	if _, _, err := sub.source.request.Take(sub.source.copies, ring.Arrival{Seq: 1}, func() { close(copied) }); err != nil {
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
