package clock

import (
	"testing"
	"time"
)

// exchange records an exchange with a peer whose clock is ahead of ours by ahead. Packets take 10 ms each way.
func exchange(c *Estimator, sent, ahead time.Duration) {
	c.Sample(sent, sent+10*time.Millisecond+ahead, sent+10*time.Millisecond+ahead, sent+20*time.Millisecond)
}

func TestOffsetIsUnknownFromSuspendToNextExchange(t *testing.T) {
	const slept, before = time.Hour, 5 * time.Minute
	var c Estimator
	c.Suspended(time.Second, before) // the total when the link began has no effect
	exchange(&c, 2*time.Second, 100*time.Second)
	c.Suspended(3*time.Second, before+leastSuspension/2)
	if off, _, ok := c.Offset(3 * time.Second); !ok || off != 100*time.Second {
		t.Fatalf("got offset %v, %v, want 100s", off, ok)
	}
	c.Suspended(3*time.Second, before+slept)
	if _, _, ok := c.Offset(3 * time.Second); ok {
		t.Error("the offset of before the host was suspended is believed")
	}
	// A report about a packet sent before the suspend: one of its time stamps is from before the suspend.
	c.Sample(2990*time.Millisecond, 103*time.Second, 103*time.Second, 3010*time.Millisecond)
	if _, _, ok := c.Offset(3010 * time.Millisecond); ok {
		t.Error("an exchange that began before the host was suspended is believed")
	}
	exchange(&c, 3020*time.Millisecond, 100*time.Second+slept)
	if off, _, ok := c.Offset(3040 * time.Millisecond); !ok || off != 100*time.Second+slept {
		t.Errorf("got offset %v, %v after the next exchange, want %v", off, ok, 100*time.Second+slept)
	}
	c.Suspended(4*time.Second, before+slept)
	if _, _, ok := c.Offset(4 * time.Second); !ok {
		t.Error("the offset was forgotten, and the host was not suspended again")
	}
}

func TestSleptIgnoresTimesBelowOneMillisecond(t *testing.T) {
	for _, step := range []struct {
		then, now time.Duration
		want      bool
	}{{0, 0, false}, {time.Hour, time.Hour, false}, {time.Hour, time.Hour - 1, false}, {0, time.Millisecond - 1, false}, {0, time.Millisecond, true}, {time.Hour, 2 * time.Hour, true}} {
		if got := Slept(step.then, step.now); got != step.want {
			t.Errorf("from %v to %v: got %v, want %v", step.then, step.now, got, step.want)
		}
	}
}
