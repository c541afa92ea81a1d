package pacing

import (
	"testing"
	"time"
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
