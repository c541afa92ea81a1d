package session

import (
	"context"
	"time"
)

// Next waits for the oldest arrival. Once over is closed, it returns the error of why.
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

// NextOrQueued waits like Next. But after the end it still returns queued arrivals first.
func NextOrQueued[T any](ctx context.Context, arrived <-chan T, over <-chan struct{}, why func() error) (T, error) {
	select {
	case v := <-arrived:
		return v, nil
	default:
		return Next(ctx, arrived, over, why)
	}
}

// NextUnlessOver waits like Next. But after the end it returns no queued arrivals.
func NextUnlessOver[T any](ctx context.Context, arrived <-chan T, over <-chan struct{}, why func() error) (T, error) {
	select {
	case <-over:
		var none T
		return none, why()
	default:
		return Next(ctx, arrived, over, why)
	}
}

// Wait waits until done is closed, but not longer than most. It reports whether done was closed.
func Wait(done <-chan struct{}, most time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(most):
		return false
	}
}
