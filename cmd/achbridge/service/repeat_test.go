package service

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The repeated work of a daemon must be done at the same moments, so that an idle daemon wakes up once for all of it.
func TestRepeatedWorkIsDoneAtTheSameMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var mu sync.Mutex
		moments := make(map[time.Time]bool)
		var tasks sync.WaitGroup
		for _, delay := range []time.Duration{0, 100 * time.Millisecond, 730 * time.Millisecond} {
			tasks.Go(func() {
				time.Sleep(delay)
				_ = Repeat(ctx, time.Second, func() {
					mu.Lock()
					defer mu.Unlock()
					moments[time.Now()] = true
				})
			})
		}
		tasks.Wait()
		if len(moments) < 58 || len(moments) > 60 {
			t.Errorf("three tasks that repeat each second woke up at %d moments of a minute, want 58 to 60", len(moments))
		}
	})
}

// A task is never called twice within half a period, even if the clock is slightly wrong.
func TestRepeatLeavesHalfAPeriod(t *testing.T) {
	start := time.Unix(1000, 0)
	for offset := time.Duration(0); offset < time.Second; offset += time.Millisecond {
		wait := untilMultiple(start.Add(offset), time.Second)
		if wait < time.Second/2 || wait > 3*time.Second/2 {
			t.Errorf("%v after the second: waits %v, want half a second to one and a half", offset, wait)
		}
	}
}
