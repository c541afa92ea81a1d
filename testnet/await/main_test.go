package await

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestReportNamesTestAndLine(t *testing.T) {
	for _, run := range []func(func(*testing.T)){
		func(f func(*testing.T)) { t.Run("real", f) },
		func(f func(*testing.T)) { t.Run("virtual", func(t *testing.T) { synctest.Test(t, f) }) },
	} {
		run(func(t *testing.T) {
			seen := make(chan string, 1)
			go func() {
				time.Sleep(10 * time.Millisecond)
				stacks := make([]byte, 1<<20)
				seen <- string(stacks[:runtime.Stack(stacks, true)])
			}()
			stacks := waitFor(seen)
			var out strings.Builder
			report(&out, time.Minute, stacks)
			if got := out.String(); !strings.Contains(got, "TestReportNamesTestAndLine waits at main_test.go:") || strings.Count(got, "\n") != 3 {
				t.Errorf("got %q, want this test and no other", got)
			}
		})
	}
}

func waitFor(c chan string) string { return <-c }
