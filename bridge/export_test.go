package bridge

import (
	"context"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/wire"
)

// lateSource begins to look when one more frame has been put.
type lateSource struct{ w *localach.Writer }

func (lateSource) Changes(context.Context, func(localach.Event)) error { return nil }

func (s lateSource) NewData(*localach.Channel, func(uint64)) func() {
	s.w.Put([]byte("meanwhile"))
	return func() {}
}

func TestFrameThatIsPutWhileASubscriptionBeginsIsNoticed(t *testing.T) {
	ch, err := testDir(t).Create("estop", localach.CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	e := newExport(wire.Subscribe{ID: 1}, QoS{}, &local{ch: ch, copies: newSnapshots(ch, nil, nil)}, &book{}, func() time.Duration { return time.Second })
	e.watch(lateSource{ch.Writer()}, func() {})
	if newest := e.note.read().newest; newest != 1 {
		t.Errorf("newest frame: got %d, want 1", newest)
	}
}
