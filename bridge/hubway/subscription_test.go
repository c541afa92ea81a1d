package hubway

import (
	"math/rand/v2"
	"testing"
)

func (c *counts) total() uint64 {
	return c.by[sent] + c.by[expired] + c.by[refused] + c.superseded + c.limited
}

// Each frame after a subscription begins has exactly one outcome in the subscription's counters.
func TestEachFrameIsCountedOncePerSubscription(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		p := &publisher{}
		newest := uint64(0)
		for range 30 {
			newest += rng.Uint64N(4)
			if rng.IntN(3) == 0 {
				p.subscriptions = append(p.subscriptions, &Subscription{countAfter: newest})
			}
			if seq := newest - rng.Uint64N(min(newest, 2)+1); rng.IntN(2) == 0 {
				p.pass(seq, rng.Uint64N(newest+1), outcome(rng.IntN(int(outcomes))))
			}
		}
		p.pass(newest+1, 0, sent)
		for _, s := range p.subscriptions {
			if got, want := s.counts.total(), newest+1-s.countAfter; got != want {
				t.Fatalf("counted %d frames (%+v) after %d up to %d, want %d", got, s.counts, s.countAfter, newest+1, want)
			}
		}
	}
}

func TestCountsSeparateRateLimitFromSuperseded(t *testing.T) {
	var c counts
	c.add(10, 20, 15, sent)
	if want := (counts{by: [outcomes]uint64{sent: 1}, limited: 5, superseded: 4}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	c.add(20, 20, 0, refused)
	c.add(20, 19, 0, refused)
	if c.total() != 10 {
		t.Errorf("got %+v, want no frame counted twice", c)
	}
}
