package hubway

import (
	"context"
	"slices"
	"testing"

	"achbridge/bridge/mirror"
	"achbridge/bridge/seal"
	"achbridge/wire"
)

// newConsumer returns a consumer that does not fetch, and a sealer of the consumer's origin. The consumer has the
// origin's key.
func newConsumer() (*Consumer, *seal.Sealer) {
	key, origin := seal.NewKey(), [16]byte{1}
	c := NewConsumer(context.Background(), func(func()) {}, ConsumerConfig{
		Feed: &mirror.Feed{Epoch: 1}, Limit: 64, Origin: origin, ReadClock: func() mirror.Reading { return mirror.Reading{} },
	})
	c.SetKey(wire.Key{KeyID: key.ID[:], Key: key.Secret[:], From: 1})
	return c, seal.NewSealer(seal.Origin{Key: key, Node: origin}, nil)
}

func sealed(t *testing.T, s *seal.Sealer, f seal.Frame) []byte {
	t.Helper()
	b, err := s.Seal(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// After a key change a few frames under another key may be in transit. More frames under unknown keys are forged.
func TestConsumerCountsFramesOfUnknownKeysAsForged(t *testing.T) {
	c, s := newConsumer()
	b := sealed(t, s, seal.Frame{Epoch: 1, Seq: 5, Data: []byte("frame")})
	for range MaxUnknownKeys + 3 {
		b[2]++ // the key's id
		c.accept(slices.Clone(b))
	}
	if r := c.Report(); r.Forged != 3 || r.IsNew {
		t.Errorf("got %+v of %d frames under unknown keys, want 3 forged", r, MaxUnknownKeys+3)
	}
}

// The cipher clears the output buffer when it refuses a forged frame. The buffer must not contain a held frame.
func TestConsumerKeepsHeldFrameBesideForgedOne(t *testing.T) {
	c, s := newConsumer()
	held := sealed(t, s, seal.Frame{Epoch: 1, Seq: 5, LastValue: true, Data: []byte("frame")}) // not yet named by the origin
	forged := slices.Clone(held)
	forged[17]++ // its counter
	c.accept(held)
	c.accept(forged)
	if r := c.Report(); c.phase != holding || r.Forged != 1 {
		t.Fatalf("phase %d, %+v; want one frame held and one forged", c.phase, r)
	}
	if got := string(c.heldFrame.Data); got != "frame" {
		t.Errorf("got %q as the held frame, want it unchanged", got)
	}
}
