package daemon

import (
	"context"
	"time"
)

// repeat calls f once a period until ctx ends; it returns nil, as part of a group.
func repeat(ctx context.Context, period time.Duration, f func()) error {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			f()
		}
	}
}
