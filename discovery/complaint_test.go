package discovery

import (
	"errors"
	"testing"
	"time"
)

func TestLimiterCountsWhatItKeepsBack(t *testing.T) {
	var l limiter
	now := time.Now()
	if _, ok := l.due(now, time.Minute); ok {
		t.Error("due without a cause")
	}
	for i, c := range []struct {
		after time.Duration
		want  int // 0: not due
	}{{0, 1}, {time.Second, 0}, {59 * time.Second, 0}, {60 * time.Second, 3}, {61 * time.Second, 0}, {5 * time.Minute, 2}} {
		l.add()
		if got, ok := l.due(now.Add(c.after), time.Minute); got != c.want || ok != (c.want > 0) {
			t.Errorf("cause %d after %v: got %d, %v, want %d", i+1, c.after, got, ok, c.want)
		}
	}
}

func TestTroubleIsToldWhenItBeginsOrChanges(t *testing.T) {
	var l trouble
	down, denied := errors.New("network is down"), errors.New("permission denied")
	for i, c := range []struct {
		err  error
		want bool
	}{{nil, false}, {down, true}, {down, false}, {denied, true}, {nil, false}, {denied, true}} {
		if got := l.begins(c.err); got != c.want {
			t.Errorf("step %d, %v: got %v, want %v", i+1, c.err, got, c.want)
		}
	}
}
