package delivery

import (
	"math/rand/v2"
	"testing"
	"time"
)

// pass sends packets of these sizes, one a millisecond, for the given length. It returns
// when the path was first found narrow, or 0. fate reports whether a packet arrives.
func pass(length time.Duration, sizes []int, outcome func(at time.Duration, size int) bool) time.Duration {
	w := &pathWidth{}
	for at := time.Duration(0); at < length; at += ms {
		size := sizes[int(at/ms)%len(sizes)]
		if outcome(at, size) {
			w.arrived(at, size)
		} else {
			w.lost(at, size)
		}
		if w.narrow(at) {
			return at
		}
	}
	return 0
}

func TestPMTUBlackHoleIsDetected(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 1))
	random := func(share float64) bool { return dice.Float64() < share }
	mixed, sizes := []int{1156, 100, 1156, 300}, []int{1156, 900, 100}
	for _, c := range []struct {
		name    string
		sizes   []int
		outcome func(at time.Duration, size int) bool
		want    bool
	}{
		{"all arrive", mixed, func(time.Duration, int) bool { return true }, false},
		{"large ones lost", mixed, func(_ time.Duration, size int) bool { return size < 600 }, true},
		{"and some of the others", mixed, func(_ time.Duration, size int) bool { return size < 600 && !random(0.3) }, true},
		{"the largest lost", sizes, func(_ time.Duration, size int) bool { return size < 1000 }, true},
		{"30 % lost", mixed, func(time.Duration, int) bool { return !random(0.3) }, false},
		{"everything lost", mixed, func(time.Duration, int) bool { return false }, false},
		{"cut for 2 s", mixed, func(at time.Duration, size int) bool { return at < time.Second || at > 3*time.Second }, false},
		{"as small as any path carries", []int{alwaysCarried, 100}, func(_ time.Duration, size int) bool { return size < 200 }, false},
	} {
		got := pass(20*time.Second, c.sizes, c.outcome)
		if (got != 0) != c.want || got > 1500*ms {
			t.Errorf("%s: narrow after %v, want %t, and within 1.5 s", c.name, got, c.want)
		}
	}
}
