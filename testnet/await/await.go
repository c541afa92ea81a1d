// Package await waits in tests for a condition, up to Limit. No function takes a
// duration, so no test fails because the machine was slow for a second. The package
// works in real time and under testing/synctest.
package await

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Limit is the longest time that a test waits for a condition. It is far above the time
// that any condition takes, also on a busy machine.
const Limit = time.Minute

// NoError calls check until it returns nil. After Limit it fails the test with check's
// last error. Call it from the test's goroutine.
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
		// Check often at first, then rarely, since a check may start a process.
		time.Sleep(min(max(time.Millisecond, waited/32), 100*time.Millisecond))
	}
}

// True calls condition until it returns true. After Limit it fails the test with what.
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

// Receive returns the next value of c, or the zero value if c is closed. After Limit it
// fails the test with what.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Limit):
		t.Fatalf("not within %v: %s", Limit, what)
		panic("unreachable")
	}
}

// Return runs f in a new goroutine and waits until f returns. After Limit it fails the
// test with what, while f still runs.
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

// Deadline returns the time Limit from now, for SetDeadline of a connection.
func Deadline() time.Time { return time.Now().Add(Limit) }
