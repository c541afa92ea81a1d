package logline

import (
	"testing"
	"time"
)

func TestLimitCountsSuppressedLines(t *testing.T) {
	l := Limit{Period: time.Minute}
	if _, ok := l.Due(0); ok {
		t.Error("due without a cause")
	}
	for i, c := range []struct {
		after time.Duration
		want  int // 0: not due
	}{{0, 1}, {time.Second, 0}, {59 * time.Second, 0}, {60 * time.Second, 3}, {61 * time.Second, 0}, {5 * time.Minute, 2}} {
		if got, ok := l.Cause(c.after); got != c.want || ok != (c.want > 0) {
			t.Errorf("cause %d after %v: got %d, %v, want %d", i+1, c.after, got, ok, c.want)
		}
	}
}

func TestLimitPassesBurstAtOnce(t *testing.T) {
	l := Limit{Burst: 3, Period: time.Second}
	lines := func(causes int, now time.Duration) (n int) {
		for range causes {
			if _, ok := l.Cause(now); ok {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		now  time.Duration
		want int
	}{{0, 3}, {999 * time.Millisecond, 0}, {time.Second, 1}, {10 * time.Second, 3}} {
		if got := lines(9, c.now); got != c.want {
			t.Errorf("9 causes at %v: got %d lines, want %d", c.now, got, c.want)
		}
	}
}
