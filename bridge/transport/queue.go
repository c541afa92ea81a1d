package transport

import "context"

// next takes the oldest of what has arrived. Once over is closed there is only why.
func next[T any](ctx context.Context, arrived <-chan T, over <-chan struct{}, why func() error) (T, error) {
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

// lastly is next, but what had arrived before the end comes after it too.
func lastly[T any](ctx context.Context, arrived <-chan T, over <-chan struct{}, why func() error) (T, error) {
	select {
	case v := <-arrived:
		return v, nil
	default:
		return next(ctx, arrived, over, why)
	}
}

// nextUnless is next, but nothing is there after the end.
func nextUnless[T any](ctx context.Context, arrived <-chan T, over <-chan struct{}, why func() error) (T, error) {
	select {
	case <-over:
		var none T
		return none, why()
	default:
		return next(ctx, arrived, over, why)
	}
}
