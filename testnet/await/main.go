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
// over it names the tests that are under way and the line at which each waits, and exits
// with code 1: Go's own timeout would print the stacks of all goroutines.
func Main(m *testing.M) int {
	flag.Parse()
	debug.SetGCPercent(400) // tests hold little and make much: a sixth less work
	if limit := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration); limit > 0 {
		time.AfterFunc(limit-limit/20, func() {
			stacks := make([]byte, 64<<20)
			report(os.Stderr, limit, string(stacks[:runtime.Stack(stacks, true)]))
			os.Exit(1)
		})
	}
	return m.Run()
}

// report writes what the tests in stacks, the text of runtime.Stack, are waiting for.
func report(w io.Writer, limit time.Duration, stacks string) {
	fmt.Fprintf(w, "FAIL: the tests take longer than -timeout %v; under way:\n", limit)
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if test, at, state := testIn(stack); test != "" {
			fmt.Fprintf(w, "    %s waits at %s [%s]\n", test, at, state)
		}
	}
	fmt.Fprintln(w, "If the machine is busy, give them more time: go test -timeout 30m")
}

// A function of a test file and its place, as runtime.Stack prints it.
var testFrame = regexp.MustCompile(`(?m)^\S*?\.((?:\(\*?\w+\)\.)?\w+)[\w.]*\(.*\)\n\t\S*/(\S+_test\.go:\d+)`)

// testIn returns the test whose goroutine this is, where in the test files it is, and the
// goroutine's state; or "" if it is no test's, or one that only waits for its subtests.
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
