package daemon

import (
	"context"
	"runtime"
	"testing"

	"achbridge/testnet/await"
)

func TestCPULimitFollowsNeed(t *testing.T) {
	var l cpuLimit
	if l.review(busyShare-0.01) || l.many {
		t.Error("got many CPUs without need")
	}
	if !l.review(busyShare+0.01) || !l.many {
		t.Error("got one CPU, want many at once")
	}
	for i := range calmReviews - 1 {
		if l.review(0.1) {
			t.Fatalf("got a limit after %d calm reviews, want %d", i+1, calmReviews)
		}
	}
	if !l.review(0.1) || l.many {
		t.Errorf("got no limit after %d calm reviews", calmReviews)
	}
}

func TestGOMAXPROCSHasPrecedence(t *testing.T) {
	t.Setenv("GOMAXPROCS", "2")
	before := runtime.GOMAXPROCS(0)
	await.Return(t, "nothing to limit", func() { LimitCPUs(context.Background()) })
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("got %d, want the %d from before", got, before)
	}
}
