package service

import (
	"context"
	"time"
)

// Repeat calls f once a period until ctx ends. It returns nil, for use in an error group.
func Repeat(ctx context.Context, period time.Duration, f func()) error {
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
