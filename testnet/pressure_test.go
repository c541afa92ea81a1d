package testnet_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// stalled is for how long, since it started, the machine has had somebody wait for a
// processor (pressure stall information, proc_pressure_cpu(5)); 0 where the kernel
// does not tell.
func stalled() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	var ten, sixty, all float64
	var total int64
	if _, err := fmt.Sscanf(string(text), "some avg10=%f avg60=%f avg300=%f total=%d", &ten, &sixty, &all, &total); err != nil {
		return 0
	}
	return time.Duration(total) * time.Microsecond
}

// mostAllowed is how many times a limit it may be on a machine without a processor to
// spare.
const mostAllowed = 4

// since is a time from which on the machine's stalls are told from what is tried.
type since struct {
	at    time.Time
	stall time.Duration
}

func sinceNow() since { return since{time.Now(), stalled()} }

// stalls is what stalled said at each moment that a test has taken.
var stalls sync.Map // of time.Duration, by moment

// sinceThen is since for a moment that a test has taken with now.
func sinceThen(m moment) since {
	s := sinceNow()
	if stall, ok := stalls.Load(m); ok {
		s.stall = stall.(time.Duration)
	}
	return s
}

// allows is a limit for what happens from s on: itself, and as much more as the
// machine stalled meanwhile, since what is tried may have waited that long. On an
// idle machine it is the limit.
func (s since) allows(limit time.Duration) time.Duration {
	return limit + min(stalled()-s.stall, (mostAllowed-1)*limit)
}

func TestLimitGrowsByWhatTheMachineStalledAndNoFurther(t *testing.T) {
	if stalled() == 0 {
		t.Log("the kernel tells no pressure: limits stay as they are")
	}
	for stall, want := range map[time.Duration]time.Duration{0: time.Second, 300 * time.Millisecond: 1300 * time.Millisecond, time.Hour: mostAllowed * time.Second} {
		s := since{stall: stalled() - stall}
		if got := s.allows(time.Second); got < want || got > want+200*time.Millisecond && want < mostAllowed*time.Second {
			t.Errorf("after a stall of %v: got %v, want %v", stall, got, want)
		}
	}
	before := now()
	stalls.Store(before, stalled()-300*time.Millisecond)
	if got := sinceThen(before).allows(time.Second); got < 1300*time.Millisecond {
		t.Errorf("after a moment with a stall of 300 ms: got %v, want 1.3 s", got)
	}
}
