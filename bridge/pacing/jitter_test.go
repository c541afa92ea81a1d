package pacing

import (
	"math"
	"testing"
	"time"

	"achbridge/bridge/delivery"
)

// Jitter must not count as a queue, however large it is. On a fast path packets wait for those
// before them: with 5 ms of jitter, a path of 100 Mbit/s carries less than a half.
func TestPacerFillsAPathWithJitter(t *testing.T) {
	for _, rate := range []float64{5, 20, 100} {
		for _, chance := range []time.Duration{0, 400 * time.Microsecond, ms, 2 * ms, 3 * ms} {
			p, f := alone(rate * mbit)
			f.delay, p.chance = 5*ms, chance
			p.run(2 * time.Second)
			f.clear()
			p.run(4 * time.Second)
			if share := f.carried(p, 4*time.Second); share < 0.85 {
				t.Errorf("%v Mbit/s, up to %v longer by chance: carried %.0f %% of what the path can, want at least 85 %%", rate, chance, 100*share)
			}
			packet := time.Duration(1060 / (rate * mbit) * float64(time.Second))
			if limit := 3*packet + 5*ms + chance; f.longest > limit {
				t.Errorf("%v Mbit/s, up to %v longer by chance: the queue was %v long, want at most %v", rate, chance, f.longest, limit)
			}
		}
	}
}

// A burst of arrivals suggested twice the real rate, and a queue has persisted since. The
// window limits the excess, so between two frames none waits for the pacer.
func TestJitterDoesNotHidePersistentQueue(t *testing.T) {
	for _, test := range []struct {
		queue time.Duration
		want  float64
	}{{2 * ms, 40 * mbit}, {6 * ms, 20 * mbit}} {
		p := Pacer{rate: 30 * mbit, path: 40 * mbit, queue: test.queue, jitter: jitter{noise: 600 * time.Microsecond}}
		for i := range time.Duration(100) {
			at := i * 400 * time.Microsecond
			p.arrived.add(delivery.Delivery{Size: 1000 - headerBytes, Sent: at, Arrived: peersClock + at})
		}
		p.loaded = p.arrived.newest().Sent // until now no frame waited for the pacer
		got, _, _, _ := p.delivery(rtt)
		if math.Abs(got/test.want-1) > 0.02 {
			t.Errorf("behind a queue of %v: got a path of %.1f Mbit/s, want %.1f", test.queue, got/mbit, test.want/mbit)
		}
	}
}

func TestJitterEstimateRisesAndExpires(t *testing.T) {
	p, f := alone(20 * mbit)
	f.delay = 5 * ms
	p.run(2 * time.Second)
	if got := f.pacer.noise(); got != 0 {
		t.Errorf("on a path without jitter: got %v, want none", got)
	}
	p.chance = 2 * ms
	p.run(2 * time.Second)
	if got := f.pacer.noise(); got < ms || got > 2*ms {
		t.Errorf("packets take up to 2 ms longer by chance: got %v, want 1 to 2 ms", got)
	}
	p.chance = 0
	p.run(10 * time.Second)
	if got := f.pacer.noise(); got != 0 {
		t.Errorf("10 s after the last of it: got %v, want none", got)
	}
}
