package send

import (
	"context"
	"os"
	"testing"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/ledger"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/localach"
	"achbridge/testnet/walk"
	"achbridge/wire"
)

// testClock returns a clock that is stopped at now, when the source has just polled.
func testClock(now time.Duration) ring.Clock {
	return ring.Clock{Now: func() time.Duration { return now }, LastPoll: func() time.Duration { return now }}
}

// testDir returns a channel directory that is removed when the test ends.
func testDir(t *testing.T) localach.Dir {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "send-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return localach.Dir(dir)
}

// testRequest returns the request of a peer that has no frame of the channel.
func testRequest(ch *localach.Channel, qos rule.QoS, clock ring.Clock) Request {
	return Request{ID: 1, Channel: ch, Copies: testSnapshots(ch, clock), QoS: qos, Counters: &ledger.SenderCounters{}}
}

// testSnapshots returns the snapshots of a channel without a node.
func testSnapshots(ch *localach.Channel, clock ring.Clock) *ring.Snapshots {
	return ring.NewSnapshots(ch, &ring.Resources{Budget: ring.NewBudget(ring.DefaultBudget), Now: clock.Now})
}

// lateSource puts one more frame before it begins to poll.
type lateSource struct{ w *localach.Writer }

func (lateSource) Changes(context.Context, func(localach.Event)) error { return nil }

func (s lateSource) NewData(*localach.Channel, func(uint64)) func() {
	s.w.Put([]byte("meanwhile"))
	return func() {}
}

func (lateSource) LastPoll() time.Time { return time.Now() }

// A daemon that was stopped notices only afterwards which frames were put meanwhile.
func TestCommandNoticedLateHasEarliestCaptureTime(t *testing.T) {
	ch, err := testDir(t).Create("goal", localach.CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	const now = 10 * time.Second
	for _, c := range []struct {
		class    rule.Class
		lastPoll time.Duration
		want     time.Duration
	}{
		{rule.Command, 5 * time.Second, 5 * time.Second},
		{rule.Command, now - 2*time.Millisecond, now},
		{rule.State, 5 * time.Second, now},
	} {
		clock := testClock(now)
		clock.LastPoll = func() time.Duration { return c.lastPoll }
		sub := newSubscription(testRequest(ch, rule.QoS{Class: c.class}, clock), clock)
		sub.source.arrivals.Watch(lateSource{ch.Writer()}, func() {})
		if got := sub.source.arrivals.Newest().CapturedAt; got != c.want {
			t.Errorf("%v, looked at last at %v: got capture time %v, want %v", c.class, c.lastPoll, got, c.want)
		}
		sub.lastCollected = sub.source.arrivals.Newest()
		if _, err := ch.Writer().Put([]byte("not noted yet")); err != nil {
			t.Fatal(err)
		}
		linkOf().load(sub, now, wire.MaxDatagram)
		if sub.loaded != ch.LastSeq() || sub.current.captured != c.want {
			t.Errorf("%v, looked at last at %v: got frame %d captured at %v, want %d at %v", c.class, c.lastPoll, sub.loaded, sub.current.captured, ch.LastSeq(), c.want)
		}
	}
}

// loaded returns a subscription that is about to send its newest frame. The frame was put after the subscription began,
// and read before it was noticed.
func loaded(t *testing.T) (*Subscription, *ledger.SenderCounters) {
	t.Helper()
	ch, err := testDir(t).Create("imu", localach.CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ch.Close() })
	clock := testClock(time.Second)
	sub := newSubscription(testRequest(ch, rule.QoS{}, clock), clock)
	sub.source.arrivals.Watch(lateSource{ch.Writer()}, func() {})
	if _, err := ch.Writer().Put([]byte("not noticed yet")); err != nil {
		t.Fatal(err)
	}
	l := linkOf()
	l.subs = map[uint32]*Subscription{1: sub}
	sub.link = l
	l.load(sub, clock.Now(), wire.MaxDatagram)
	return sub, sub.counters
}

// The ring may hold a frame that the watcher has not seen yet.
func TestFrameReadBeforeNoticeIsOffered(t *testing.T) {
	sub, b := loaded(t)
	builder := &datagramBuilder{}
	sub.link.addWhole(builder, sub, time.Second)
	sub.link.sentPackets.Sent(time.Second, sub.link.sentPackets.NextNumber(time.Second), len(builder.body), len(builder.body), builder.pieces)
	a, _ := sub.FrameCounters()
	if want := (ledger.FrameCounters{Offered: 2, Superseded: 1, InFlight: 1}); a != want {
		t.Errorf("got %+v, want %+v", a, want)
	}
	sub.Stop()
	if want := (ledger.FrameCounters{Offered: 2, Superseded: 1, Lost: 1}); b.Past != want {
		t.Errorf("when the subscription has ended: got %+v, want %+v", b.Past, want)
	}
}

// A frame is retransmitted because its packet is late. Then the first packet arrives, and the second is lost.
func TestLostRetransmissionOfArrivedFrameIsNoLoss(t *testing.T) {
	sub, b := loaded(t)
	sub.leave(&sub.current, time.Second)
	p := delivery.Piece{Sub: 1, Seq: sub.loaded, Whole: true}
	sub.missing(p)
	sub.delivered(p, time.Second)
	sub.missing(p)
	b.Sent++ // the next frame
	if a := b.FrameCounters(sub.loaded + 1); a.Lost != 0 || a.InFlight != 1 {
		t.Errorf("got %d lost and %d in flight, want the next frame in flight alone", a.Lost, a.InFlight)
	}
}

// An ended subscription must not become active again.
func TestSubscriptionActivity(t *testing.T) {
	sub, _ := loaded(t)
	other, _ := loaded(t)
	l, send := sub.link, func() { sub.link.addWhole(&datagramBuilder{}, sub, time.Second) }
	var q queue
	walk.Phases(t, map[activity][]activity{idle: {active}, active: {idle, ended}}, func() activity { return sub.activity }, []walk.Step[activity]{
		{Do: func() { l.activate(sub) }, Want: active},
		{Do: func() { l.fillQueue(&q, time.Second) }, Want: active}, // its frame waits
		{Do: func() { send(); l.fillQueue(&q, time.Second) }, Want: idle},
		{Do: func() { l.activate(sub) }, Want: active},
		{Do: sub.Stop, Want: ended},
		{Do: func() { l.activate(sub); l.fillQueue(&q, time.Second) }, Want: ended},
	})
	if other.Stop(); other.activity != ended {
		t.Errorf("an idle subscription that was stopped: got phase %v, want %v", other.activity, ended)
	}
}
