package age

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestDueIsAgeBeyondPeriod(t *testing.T) {
	for _, c := range []struct{ age, period, want time.Duration }{
		{0, 0, 0}, {5 * msec, 10 * msec, 0}, {10 * msec, 10 * msec, 0}, {200 * msec, 10 * msec, 190 * msec}, {time.Hour, 200 * msec, time.Hour - 200*msec},
	} {
		if got := Due(c.age, c.period); got != c.want {
			t.Errorf("age %v, period %v: got %v, want %v", c.age, c.period, got, c.want)
		}
	}
}

func TestCadenceIsIndependentOfSkippedFrames(t *testing.T) {
	for _, step := range []uint64{1, 2, 17, 1000} {
		var c Cadence
		for seq := uint64(1); seq < 50*step; seq += step {
			c.Add(seq, time.Second+time.Duration(seq)*5*msec)
		}
		if got, ok := c.Period(); !ok || got != 5*msec {
			t.Errorf("every %d-th frame of 200 Hz: got %v, want 5ms", step, got)
		}
	}
}

func TestCadenceAdaptsToPublishRate(t *testing.T) {
	var c Cadence
	seq, at := uint64(0), time.Second
	put := func(n int, period time.Duration) time.Duration {
		for range n {
			seq, at = seq+1, at+period
			c.Add(seq, at)
		}
		got, _ := c.Period()
		return got
	}
	if got := put(100, 10*msec); got != 10*msec {
		t.Errorf("100 Hz: got %v", got)
	}
	if got := put(2, 200*msec); got < 200*msec {
		t.Errorf("5 Hz, after two frames: got %v, want at least 200ms", got)
	}
	if got := put(60, 200*msec); got.Round(msec) != 200*msec {
		t.Errorf("5 Hz: got %v", got)
	}
	put(1, 20*time.Second)
	if got := put(40, 200*msec); got > 500*msec {
		t.Errorf("8 s after a rest of 20 s: got %v, want about 200ms", got)
	}
}

func TestUnevenChannelIsRarelyOverdue(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var c Cadence
	at, overdue, total := time.Second, time.Duration(0), time.Duration(0)
	for seq := uint64(1); seq < 2000; seq++ {
		gap := time.Duration(r.ExpFloat64() * float64(time.Second))
		if period, ok := c.Period(); ok {
			overdue, total = overdue+Due(gap, period), total+gap
		}
		at += gap
		c.Add(seq, at)
	}
	if share := overdue.Seconds() / total.Seconds(); share > 0.05 {
		t.Errorf("overdue %.1f %% of the time, want at most 5", 100*share)
	}
}

func TestCadenceNeedsTwoFramesOfOneClock(t *testing.T) {
	var c Cadence
	c.Add(5, time.Second)
	c.Add(5, 2*time.Second) // the same frame again
	c.Add(6, 0)             // capture time unknown
	c.Add(7, 3*time.Second)
	c.Rest()
	c.Add(8, time.Millisecond)
	c.Add(9, 0)
	if got, ok := c.Period(); ok {
		t.Errorf("got %v of no two frames", got)
	}
	c.Add(10, time.Second)
	c.Add(11, time.Second+20*msec)
	if got, ok := c.Period(); !ok || got != 20*msec {
		t.Errorf("got %v, %v, want 20ms", got, ok)
	}
}
