package localach

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Periods that end during a call are skipped, and no call is early.
func TestEveryKeepsItsPeriod(t *testing.T) {
	const period = 10 * time.Millisecond
	start, calls, done := time.Now(), 0, errors.New("done")
	err := Every(context.Background(), period, func() error {
		passed := time.Since(start)
		if calls++; passed < time.Duration(calls)*period {
			t.Errorf("call %d: after %v, want at least %v", calls, passed, time.Duration(calls)*period)
		}
		if calls == 2 {
			time.Sleep(2*period + period/2)
			calls = int(time.Since(start) / period)
		}
		if calls >= 8 {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Errorf("got %v, want the error of the call", err)
	}
}

func TestEveryEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	if err := Every(ctx, time.Millisecond, func() error { cancel(); return nil }); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}
