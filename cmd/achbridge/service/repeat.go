package service

import (
	"context"
	"time"
)

// Repeat calls f once a period, at whole multiples of the period by the wall clock. So all work that a daemon repeats once a second is
// done at the same moment, and an idle daemon wakes up only once for it. Repeat blocks until ctx ends, and returns nil, for use in an
// errgroup.
func Repeat(ctx context.Context, period time.Duration, f func()) error {
	timer := time.NewTimer(untilMultiple(time.Now(), period))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			f()
			timer.Reset(untilMultiple(time.Now(), period))
		}
	}
}

// untilMultiple returns the time from now to the first whole multiple of the period, by the wall clock, that is at least half a period
// away.
func untilMultiple(now time.Time, period time.Duration) time.Duration {
	half := period / 2
	return now.Add(half).Truncate(period).Add(period).Sub(now)
}
