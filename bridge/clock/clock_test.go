package clock

import (
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestEstimatorUsesLeastDelayedSample(t *testing.T) {
	// The peer's clock is 1 h ahead. Packets take 5 ms each way, or 20 ms more in one direction.
	c := &Estimator{}
	const ahead = time.Hour
	at := time.Second
	c.Sample(at, at+ahead+25*ms, at+ahead+25*ms, at+30*ms)
	at += time.Second
	c.Sample(at, at+ahead+5*ms, at+ahead+8*ms, at+13*ms)
	offset, uncertainty, ok := c.Offset(at + 13*ms)
	if want := 5*ms + time.Microsecond; !ok || offset != ahead || uncertainty != want {
		t.Errorf("got %v ± %v, %v; want 1h ± %v", offset, uncertainty, ok, want)
	}
	if _, _, ok := c.Offset(at + time.Minute); ok {
		t.Error("an estimate a minute old still counts")
	}
	c.Sample(at, at, at+time.Second, at) // an impossible exchange
	if _, _, ok := c.Offset(at); !ok {
		t.Error("an impossible sample took the good one's place")
	}
}

func TestEstimatorBoundsContainTrueOffset(t *testing.T) {
	for _, ahead := range []time.Duration{-2 * 8760 * time.Hour, 0, 2 * 8760 * time.Hour} {
		for _, ppm := range []time.Duration{-100, 0, 100} {
			c := &Estimator{}
			random := rand.New(rand.NewPCG(1, 2))
			peers := func(at time.Duration) time.Duration { return ahead + at + at*ppm/1e6 }
			delay := func() time.Duration { return 5*ms + time.Duration(random.ExpFloat64()*float64(3*ms)) }
			var now time.Duration
			for now = time.Second; now < 10*time.Minute; now += time.Duration(random.Int64N(int64(time.Second))) {
				arrived := now + delay()
				back := arrived + delay()
				c.Sample(now, peers(arrived), peers(arrived), back)
				for at := back; at < back+4*time.Second; at += 500 * ms { // no further exchange
					offset, uncertainty, ok := c.Offset(at)
					if wrong := (peers(at) - at - offset).Abs(); !ok || wrong > uncertainty {
						t.Fatalf("%v ahead, %d ppm, at %v: wrong by %v, want at most %v", ahead, ppm, at, wrong, uncertainty)
					}
				}
			}
			if _, uncertainty, _ := c.Offset(now); uncertainty > 8*ms {
				t.Errorf("%v ahead, %d ppm: uncertain by %v, want at most 8ms on a way of 5ms", ahead, ppm, uncertainty)
			}
		}
	}
}

// After a suspend, a host's clock is behind by the suspended time, so that the earlier estimate is wrong by that
// time.
func TestEstimatorFollowsSuspendedPeer(t *testing.T) {
	for _, slept := range []time.Duration{-5 * time.Second, 100 * ms, 5 * time.Second, time.Hour} {
		c, at := &Estimator{}, time.Second
		for range 20 { // the best possible samples
			if step := c.Sample(at, at+1*ms, at+1*ms, at+2*ms); step != 0 {
				t.Errorf("got a step of %v before it was suspended", step)
			}
			at += 500 * ms
		}
		if step := c.Sample(at, at+slept+10*ms, at+slept+15*ms, at+30*ms); (step - slept).Abs() > 15*ms {
			t.Errorf("suspended for %v: got a step of %v", slept, step)
		}
		offset, uncertainty, ok := c.Offset(at + 30*ms)
		if wrong := (offset - slept).Abs(); !ok || wrong > uncertainty {
			t.Errorf("suspended for %v: got %v ± %v, %v; want it within its bounds again", slept, offset, uncertainty, ok)
		}
		at += time.Second
		c.Sample(at, at+slept+1*ms, at+slept+1*ms, at+2*ms)
		if _, uncertainty, _ := c.Offset(at + 2*ms); uncertainty > 2*ms {
			t.Errorf("suspended for %v: got an uncertainty of %v, want that of the best sample since", slept, uncertainty)
		}
	}
}
