// Tally reads `go test -json` on its standard input, prints what a person
// wants to see of it (one line per package, the whole output of a test that
// failed, the reason of one that was skipped) and at the end the counts:
//
//	go test -json ./... 2>&1 | go run ./.ci [-lacks PART]... [-counts FILE] [-again FILE]
//
// Under ACHBRIDGE_NO_SKIP=1 a skip is a failure, unless its reason names a PART
// that the machine lacks. Exit code 1 when anything failed; then -again lists the
// tests that may have failed for want of time, a line "PACKAGE TEST" each, and
// nothing if anything failed otherwise: a skip, a crash, a data race.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	t := newTally(os.Stdout)
	t.strict = os.Getenv("ACHBRIDGE_NO_SKIP") == "1"
	flag.Func("lacks", "a `PART` of the machine that is not there", func(part string) error {
		t.lacks = append(t.lacks, part)
		return nil
	})
	counts := flag.String("counts", "", "write the closing line to `FILE` too")
	again := flag.String("again", "", "write the tests worth another try to `FILE`")
	flag.Parse()

	err := t.read(os.Stdin)
	if err == nil && *again != "" {
		err = os.WriteFile(*again, []byte(t.worthAnotherTry()), 0o644)
	}
	fmt.Println(t)
	if err == nil && *counts != "" {
		err = os.WriteFile(*counts, []byte(t.String()+"\n"), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	if t.failed > 0 || t.passed == 0 {
		os.Exit(1)
	}
}

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
}

// tally counts tests and subtests, each once.
type tally struct {
	out    io.Writer
	strict bool
	lacks  []string

	passed, failed, skipped int

	open   map[test]*strings.Builder // started and not ended: what they printed
	broken map[string]int            // failures per package

	slow   []test // failed, without their subtests
	beyond bool   // something failed that another try would not excuse
}

type test struct{ pkg, name string }

func newTally(out io.Writer) *tally {
	return &tally{out: out, open: map[test]*strings.Builder{}, broken: map[string]int{}}
}

func (t *tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
}

// worthAnotherTry are the lines for -again.
func (t *tally) worthAnotherTry() string {
	var lines strings.Builder
	if !t.beyond {
		for _, key := range t.slow {
			fmt.Fprintln(&lines, key.pkg, key.name)
		}
	}
	return lines.String()
}

// read consumes events to the end. Lines that are none are passed on.
func (t *tally) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if line[0] != '{' || json.Unmarshal(line, &e) != nil {
				t.out.Write(line)
			} else {
				t.see(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) see(e event) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		io.WriteString(t.out, e.Output)
	case "output":
		t.output(key).WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.endPackage(e)
		} else {
			t.endTest(key, e.Action)
		}
	}
}

func (t *tally) output(key test) *strings.Builder {
	if t.open[key] == nil {
		t.open[key] = &strings.Builder{}
	}
	return t.open[key]
}

func (t *tally) endTest(key test, how string) {
	said := t.output(key).String()
	delete(t.open, key)
	switch {
	case how == "pass":
		t.passed++
	case how == "fail":
		t.fail(key, said)
		if !strings.Contains(key.name, "/") {
			t.slow = append(t.slow, key)
		}
		t.beyond = t.beyond || strings.Contains(said, "DATA RACE") || strings.Contains(said, "race detected")
	case t.strict && !t.excused(said):
		t.beyond = true
		t.fail(key, said+"    a skip, and this machine lacks nothing that it names\n")
	default:
		t.skipped++
		fmt.Fprintf(t.out, "skip  %s %s: %s\n", key.pkg, key.name, reason(said))
	}
}

func (t *tally) fail(key test, said string) {
	t.failed++
	t.broken[key.pkg]++
	fmt.Fprintf(t.out, "FAIL  %s %s\n%s", key.pkg, key.name, excerpt(said))
}

// endPackage counts a failure of its own when the package failed and no test
// of it did: it did not build, or died with a test under way.
func (t *tally) endPackage(e event) {
	var left []string
	for key, said := range t.open {
		if key.pkg != e.Package {
			continue
		}
		if key.name != "" {
			left = append(left, key.name)
		}
		if e.Action == "fail" && (key.name != "" || t.broken[e.Package] == 0) {
			io.WriteString(t.out, excerpt(said.String()))
		}
		delete(t.open, key)
	}
	switch {
	case e.Action == "pass" && t.broken[e.Package] == 0:
		fmt.Fprintf(t.out, "ok    %s %.1fs\n", e.Package, e.Elapsed)
	case e.Action != "skip":
		if t.broken[e.Package] == 0 {
			t.failed++
		}
		t.beyond = t.beyond || t.broken[e.Package] == 0 || len(left) > 0
		fmt.Fprintf(t.out, "FAIL  %s %.1fs", e.Package, e.Elapsed)
		if len(left) > 0 {
			fmt.Fprintf(t.out, ", with these under way: %s", strings.Join(left, " "))
		}
		fmt.Fprintln(t.out)
	}
}

// excused reports whether a skip's reason names something the machine lacks.
func (t *tally) excused(said string) bool {
	for _, part := range t.lacks {
		if strings.Contains(said, part) {
			return true
		}
	}
	return false
}

// excerpt returns the beginning and the end of a test's output, in case the test printed a line
// at each poll.
func excerpt(said string) string {
	const first, last = 50, 150
	lines := strings.SplitAfter(said, "\n")
	if len(lines) <= first+last {
		return said
	}
	cut := fmt.Sprintf("... %d lines more ...\n", len(lines)-first-last)
	return strings.Join(lines[:first], "") + cut + strings.Join(lines[len(lines)-last:], "")
}

// reason returns the output of a test without the lines that go test adds.
func reason(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}
