package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
)

func TestMaxRateSendsNewestFrame(t *testing.T) {
	inFlow(t, "delay=10ms,rate=100mbit", rule.QoS{MaxRate: 200_000}, 64, func(f *flow) {
		got := f.record(func() {
			f.stream(milli, 5*second, func(time.Duration) {})
			time.Sleep(50 * milli)
		})
		perSecond := map[time.Duration]int{}
		for _, s := range got {
			perSecond[(s.at-10*milli)/second]++
			if age := s.at - s.stamp - 10*milli; age > milli+300*time.Microsecond {
				t.Fatalf("frame %d was %v old when it left, want the newest, at most %v", s.number, age, milli)
			}
		}
		for at := range 5 * second / second {
			if n := perSecond[at]; n < 199 || n > 201 {
				t.Errorf("%d frames in second %d, want 200 ± 1", n, at)
			}
		}
		time.Sleep(second)
		f.agrees()
		if a := f.robotSays(); a.RateLimited != a.Offered-a.Delivered {
			t.Errorf("got %+v, want all others rate-limited", a)
		}
	})
}

// The slot that was reserved at the old rate may be far in the future.
func TestMaxRateChangeAppliesAtOnce(t *testing.T) {
	inFlow(t, "delay=10ms,rate=100mbit", rule.QoS{MaxRate: 1}, 64, func(f *flow) { // one in 1000 s
		count := func(long time.Duration) uint64 {
			before := f.kept()
			f.stream(milli, long, func(time.Duration) {})
			time.Sleep(50 * milli)
			return f.kept() - before
		}
		for _, step := range []struct {
			rate        rule.Rate
			least, most uint64
		}{{1, 0, 0}, {100_000, 99, 101}, {10_000, 9, 11}, {0, 1000, 1000}, {1, 0, 0}, {500_000, 499, 501}} {
			f.requalify(rule.QoS{MaxRate: step.rate})
			count(50 * milli) // the change takes 10 ms to reach the origin
			if n := count(second); n < step.least || n > step.most {
				t.Errorf("%d frames came in a second at max_rate %v, want %d to %d", n, step.rate, step.least, step.most)
			}
		}
		time.Sleep(second)
		f.agrees()
	})
}

// The mirror of a 1 kHz channel changes its quality of service ten times. It misses only the
// frames that the new quality of service excludes.
func TestQoSChangesWithoutGap(t *testing.T) {
	for name, list := range map[string][]rule.QoS{
		"budget":   {{Budget: second}, {Budget: 50 * milli}},
		"priority": {{Priority: 8}, {Priority: 1}},
		"late":     {{Late: rule.LateNewest}, {Late: rule.LateDrop}},
		"class":    {{Class: rule.Command}, {Class: rule.State}},
		"max_rate": {{MaxRate: 100_000}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			inFlow(t, "delay=10ms,rate=100mbit", rule.QoS{}, 64, func(f *flow) {
				id := f.subscription()
				got := f.record(func() {
					f.stream(milli, 2*second, func(at time.Duration) {
						if at%(200*milli) == 0 {
							f.requalify(list[at/(200*milli)%2])
						}
					})
					time.Sleep(50 * milli)
				})
				if now := f.subscription(); now != id {
					t.Errorf("got subscription %d, want %d as before", now, id)
				}
				gap := uint64(1)
				if name == "max_rate" {
					gap = 11 // 10 ms, and the previous frame
				}
				last := uint64(0)
				for _, s := range got {
					if s.number > last+gap || s.number <= last {
						t.Fatalf("frame %d came after frame %d", s.number, last)
					}
					last = s.number
				}
				if last != f.number {
					t.Errorf("the last frame is %d, want %d", last, f.number)
				}
			})
		})
	}
}
