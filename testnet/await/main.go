package await

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// Main runs the tests of a package, for its TestMain. When go test's -timeout is almost
// over it prints the running tests and the line at which each waits, and exits with code
// 1. Go's own timeout would print the stacks of all goroutines.
func Main(m *testing.M) int {
	flag.Parse()
	debug.SetGCPercent(400) // tests hold little memory but allocate much, so this saves a sixth of the CPU time
	if limit := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration); limit > 0 {
		time.AfterFunc(limit-limit/20, func() {
			stacks := make([]byte, 64<<20)
			report(os.Stderr, limit, string(stacks[:runtime.Stack(stacks, true)]))
			os.Exit(1)
		})
	}
	return m.Run()
}

// report writes where the tests in stacks, the output of runtime.Stack, are waiting.
func report(w io.Writer, limit time.Duration, stacks string) {
	fmt.Fprintf(w, "FAIL: the tests take longer than -timeout %v; under way:\n", limit)
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if test, at, state := testIn(stack); test != "" {
			fmt.Fprintf(w, "    %s waits at %s [%s]\n", test, at, state)
		}
	}
	fmt.Fprintln(w, "If the machine is busy, give them more time: go test -timeout 30m")
}

// testFrame matches a function in a test file and its line, as runtime.Stack prints them.
var testFrame = regexp.MustCompile(`(?m)^\S*?\.((?:\(\*?\w+\)\.)?\w+)[\w.]*\(.*\)\n\t\S*/(\S+_test\.go:\d+)`)

// testIn returns the test that runs in a goroutine, the line of the test file at which it
// is, and the goroutine's state. It returns "" if the goroutine runs no test, or a test
// that only waits for its subtests.
func testIn(stack string) (test, at, state string) {
	head, frames, _ := strings.Cut(stack, "\n")
	if !strings.Contains(frames, "\ntesting.tRunner(") || strings.Contains(frames, "testing.(*T).Run(") || strings.Contains(frames, "testing.(*T).Parallel(") || strings.Contains(frames, "synctest.Test(") {
		return "", "", ""
	}
	found := testFrame.FindAllStringSubmatch(frames, -1)
	if len(found) == 0 {
		return "", "", ""
	}
	_, state, _ = strings.Cut(strings.TrimSuffix(head, "]:"), "[")
	return found[len(found)-1][1], found[0][2], state
}
