package service

import (
	"context"
	"time"
)

// Repeat calls f once a period until ctx ends, at whole multiples of the period. So the work of a daemon that is done once a
// second is done at the same time, and an idle daemon wakes up once for all of it. Repeat returns nil, for use in an error group.
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

// untilMultiple returns the time from now to a whole multiple of the period by the wall clock, half a period away or more.
func untilMultiple(now time.Time, period time.Duration) time.Duration {
	half := period / 2
	return now.Add(half).Truncate(period).Add(period).Sub(now)
}
