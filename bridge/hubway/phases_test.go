package hubway

import (
	"context"
	"crypto"
	"log/slog"
	"os"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/seal"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/testnet/walk"
	"achbridge/wire"
)

func TestConsumerTransitions(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	m := mirror.New(mirror.Config{Name: "imu", Log: log, Events: &status.Journal{Log: log}, Clock: mirror.Clock{Now: func() time.Duration { return 1 }}}, rule.QoS{}, nil)
	key, clock, seq := seal.NewKey(), mirror.Reading{}, uint64(0)
	c := NewConsumer(context.Background(), func(func()) {}, ConsumerConfig{
		Feed: &mirror.Feed{Epoch: 1}, Mirror: m, Limit: 64, ReadClock: func() mirror.Reading { return clock },
	})
	s := seal.NewSealer(seal.Origin{Key: key}, nil)
	arrives := func(clockKnown bool) func() {
		return func() {
			clock.Known = clockKnown
			seq++
			c.accept(sealed(t, s, seal.Frame{Epoch: 1, Seq: seq, Captured: 1, Data: []byte("frame")}))
		}
	}
	walk.Phases(t, consumerTransitions, func() consumerPhase { return c.phase }, []walk.Step[consumerPhase]{
		{Do: arrives(true), Want: keyless},
		{Do: func() { c.SetKey(wire.Key{KeyID: key.ID[:], Key: key.Secret[:], From: 1}) }, Want: opening},
		{Do: arrives(true), Want: opening},
		{Do: arrives(false), Want: holding},
		{Do: arrives(false), Want: holding},
		{Do: c.ClockKnown, Want: holding}, // the clock is still unknown
		{Do: func() { clock.Known = true; c.ClockKnown() }, Want: opening},
		{Do: arrives(false), Want: holding},
		{Do: arrives(true), Want: opening},
	})
	if c.Newest() != seq {
		t.Errorf("the newest frame that went to the mirror is %d, want %d", c.Newest(), seq)
	}
}

// farHub is an unreachable hub, the source of a channel, and a peer.
type farHub struct{ Hub }

func (farHub) Channel(string, string) Channel                        { return nil }
func (farHub) NewData(*localach.Channel, func(uint64)) (stop func()) { return func() {} }
func (farHub) Send(wire.Message)                                     {}
func (farHub) Host() string                                          { return "pc" }

func TestPublisherTransitions(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "bridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ch, err := localach.Dir(dir).Create("imu", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ch.Close() })
	now := func() time.Duration { return 1 }
	all := NewPublishers(context.Background(), Config{
		Hub: farHub{}, Signer: func() crypto.Signer { return nil }, Source: farHub{}, Clock: ring.Clock{Now: now, LastPoll: now}, Suspended: now, Spawn: func(func()) {},
	})
	copies := ring.NewSnapshots(ch, &ring.Resources{Budget: ring.NewBudget(1 << 20)})
	p := all.publish(ch, copies, 0)
	all.byChannel["imu"] = p
	var subscriptions []*Subscription
	subscribe := func() {
		subscriptions = append(subscriptions, all.Subscribe(ch, Request{Peer: farHub{}, Counters: &ledger.SenderCounters{}, Copies: copies}))
	}
	walk.Phases(t, publisherTransitions, func() publisherPhase { return p.phase }, []walk.Step[publisherPhase]{
		{Do: func() { all.WallClockMoved(time.Hour) }, Want: starting},
		{Do: subscribe, Want: publishing},
		{Do: subscribe, Want: publishing},
		{Do: func() { subscriptions[0].Stop() }, Want: publishing},
		{Do: func() { subscriptions[1].Stop() }, Want: ended},
		{Do: func() { all.WallClockMoved(time.Hour) }, Want: ended},
	})
	if len(all.byChannel) != 0 {
		t.Error("the channel is still published without a reader, want it stopped")
	}
}
