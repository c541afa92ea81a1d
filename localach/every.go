package localach

import (
	"context"
	"time"
)

// Every calls f once a period, first after one period. It blocks until ctx ends, and then returns nil, or until f returns an error,
// which Every returns. Calls are usually a few microseconds late, and delays do not add up. Periods that end
// during a call are skipped. While Every waits, it takes no CPU time and no thread.
func Every(ctx context.Context, period time.Duration, f func() error) error {
	t, err := newTimer()
	if err != nil {
		return err
	}
	defer t.close()
	defer context.AfterFunc(ctx, t.interrupt)()
	start, ends := time.Now(), period // ends is the end of the current period, counted from start
	arm := func() { t.set(max(ends-time.Since(start), 1)) }
	for ; ; ends += max(0, time.Since(start)-ends).Truncate(period) + period {
		if err := t.wait(arm); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
}
