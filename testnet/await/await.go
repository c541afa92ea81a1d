// Package await is how tests wait: for a condition, until Limit is over. No call takes
// a duration, so no test can fail because the machine was slow for a second. It works
// in real time and under testing/synctest.
package await

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Limit is how long a test waits for something that must happen. It is far above what
// any of these conditions takes, also on a machine with much other work.
const Limit = time.Minute

// NoError calls check until it returns nil, and fails the test with check's last error
// when Limit is over. Call it from the test's goroutine.
func NoError(t testing.TB, check func() error) {
	t.Helper()
	begin := time.Now()
	for {
		waited := time.Since(begin)
		err := check()
		if err == nil {
			return
		}
		if waited > Limit {
			t.Fatalf("not within %v: %v", Limit, err)
		}
		// Often at first, then rarely: a check may start a process.
		time.Sleep(min(max(time.Millisecond, waited/32), 100*time.Millisecond))
	}
}

// True is NoError for a condition that needs no more explanation than what.
func True(t testing.TB, what string, condition func() bool) {
	t.Helper()
	failure := errors.New(what)
	NoError(t, func() error {
		if condition() {
			return nil
		}
		return failure
	})
}

// Receive returns the next value of c, or its zero value if c is closed, and fails the
// test when Limit is over.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	select {
	case v := <-c:
		return v
	case <-limit.C:
		t.Fatalf("not within %v: %s", Limit, what)
		panic("unreachable")
	}
}

// Return runs f in a goroutine of its own and waits until it returns. When Limit is
// over it fails the test and leaves f behind.
func Return(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	Receive(t, what, done)
}

// Context returns the test's context with Limit as its deadline.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	return ctx
}

// Deadline is Limit from now, for SetDeadline of a connection.
func Deadline() time.Time { return time.Now().Add(Limit) }
