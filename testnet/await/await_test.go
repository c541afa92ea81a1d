package await_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/testnet/await"
)

// failing records the failure of a test that is expected to fail.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	panic(f)
}

// fails runs do with a test that may fail, and returns the failure and how long it took.
func fails(t *testing.T, do func(testing.TB)) (message string, took time.Duration) {
	t.Helper()
	f := &failing{TB: t}
	begin := time.Now()
	defer func() {
		if r := recover(); r != nil && r != any(f) {
			panic(r)
		}
		message, took = f.message, time.Since(begin)
	}()
	do(f)
	return
}

func TestAwaitReturnsOnceConditionHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		await.True(t, "later", func() bool { return time.Since(begin) > 3*time.Second })
		if took := time.Since(begin); took > 3200*time.Millisecond {
			t.Errorf("took %v, want about 3 s", took)
		}
		c := make(chan int, 1)
		c <- 7
		if got := await.Receive(t, "value", c); got != 7 {
			t.Errorf("Receive = %d, want 7", got)
		}
		await.Return(t, "sleep", func() { time.Sleep(time.Second) })
	})
}

func TestAwaitFailsAfterLimit(t *testing.T) {
	for name, do := range map[string]func(testing.TB){
		"NoError": func(t testing.TB) { await.NoError(t, func() error { return errors.New("reason") }) },
		"True":    func(t testing.TB) { await.True(t, "reason", func() bool { return false }) },
		"Receive": func(t testing.TB) { await.Receive[int](t, "reason", nil) },
		"Return":  func(t testing.TB) { await.Return(t, "reason", func() { time.Sleep(2 * await.Limit) }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				message, took := fails(t, do)
				if !strings.Contains(message, "reason") || took < await.Limit || took > await.Limit+time.Second {
					t.Errorf("got %q after %v, want the reason after %v", message, took, await.Limit)
				}
				time.Sleep(2 * await.Limit) // until Return's goroutine has ended
			})
		})
	}
}
