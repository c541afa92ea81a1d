package session

import (
	"context"
	"time"
)

// next waits for the oldest arrival. Once over is closed, it returns the error of why.
func Next[T any](ctx context.Context, arrived <-chan T, over <-chan struct{}, why func() error) (T, error) {
	var none T
	select {
	case v := <-arrived:
		return v, nil
	case <-over:
		return none, why()
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// lastly is next, but it returns what had arrived before the end also after the end.
func NextOrQueued[T any](ctx context.Context, arrived <-chan T, over <-chan struct{}, why func() error) (T, error) {
	select {
	case v := <-arrived:
		return v, nil
	default:
		return Next(ctx, arrived, over, why)
	}
}

// NextUnlessOver is next, but it returns nothing after the end, even what had arrived before.
func NextUnlessOver[T any](ctx context.Context, arrived <-chan T, over <-chan struct{}, why func() error) (T, error) {
	select {
	case <-over:
		var none T
		return none, why()
	default:
		return Next(ctx, arrived, over, why)
	}
}

// wait waits until done is closed, but not longer than most. It reports whether done was closed.
func Wait(done <-chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
