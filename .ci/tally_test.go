package main

import (
	"strings"
	"testing"
)

const (
	passes     = `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}` + "\n" + `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n"
	fails      = `{"Action":"output","Package":"p","Test":"TestB","Output":"    got 1, want 2\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestB"}` + "\n"
	skips      = `{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:1: needs a Docker Engine\n"}` + "\n" + `{"Action":"skip","Package":"p","Test":"TestC"}` + "\n"
	dies       = `{"Action":"output","Package":"p","Test":"TestD","Output":"panic: help\n"}` + "\n" + `{"Action":"fail","Package":"p"}` + "\n"
	compressed = `{"Action":"pass","Package":"p","Elapsed":1.5}` + "\n"
	unbuilt    = `{"ImportPath":"p","Action":"build-output","Output":"p.go:1: syntax error\n"}` + "\n" + `{"Action":"fail","Package":"p","FailedBuild":"p"}` + "\n"
)

func TestTallyCountsAndPrintsFailures(t *testing.T) {
	for _, c := range []struct {
		name, in, counts, says string
		strict                 bool
		lacks                  []string
	}{
		{name: "nothing ran", counts: "0 passed, 0 failed, 0 skipped"},
		{name: "a pass is one line per package", in: passes + compressed, counts: "1 passed, 0 failed, 0 skipped", says: "ok    p 1.5s"},
		{name: "a failure shows its output", in: passes + fails, counts: "1 passed, 1 failed, 0 skipped", says: "FAIL  p TestB\n    got 1, want 2"},
		{name: "a skip shows its reason", in: skips, counts: "0 passed, 0 failed, 1 skipped", says: "skip  p TestC: c_test.go:1: needs a Docker Engine"},
		{name: "a skip is a failure", in: skips, strict: true, counts: "0 passed, 1 failed, 0 skipped", says: "lacks nothing that it names"},
		{name: "a skip fails its package", in: skips + compressed, strict: true, counts: "0 passed, 1 failed, 0 skipped", says: "FAIL  p 1.5s"},
		{name: "another part is no excuse", in: skips, strict: true, lacks: []string{"root"}, counts: "0 passed, 1 failed, 0 skipped"},
		{name: "a lacking part excuses", in: skips, strict: true, lacks: []string{"Docker Engine"}, counts: "0 passed, 0 failed, 1 skipped"},
		{name: "a crash is a failure", in: passes + dies, counts: "1 passed, 1 failed, 0 skipped", says: "panic: help"},
		{name: "a crash names the test", in: dies, counts: "0 passed, 1 failed, 0 skipped", says: "under way: TestD"},
		{name: "what does not build is a failure", in: unbuilt, counts: "0 passed, 1 failed, 0 skipped", says: "p.go:1: syntax error"},
		{name: "other lines pass through", in: "go: downloading x\n", counts: "0 passed, 0 failed, 0 skipped", says: "go: downloading x"},
		{name: "a long story is cut", in: strings.Repeat(strings.SplitAfter(fails, "\n")[0], 500) + fails, counts: "0 passed, 1 failed, 0 skipped", says: "... 302 lines more ..."},
		{name: "a line without an end counts", in: strings.TrimSpace(passes), counts: "1 passed, 0 failed, 0 skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			sum := newTally(&out)
			sum.strict, sum.lacks = c.strict, c.lacks
			if err := sum.read(strings.NewReader(c.in)); err != nil {
				t.Fatal(err)
			}
			if sum.String() != c.counts {
				t.Errorf("counts: got %q, want %q", sum, c.counts)
			}
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("printed: got %q, want %q in it", &out, c.says)
			}
		})
	}
}

func TestTallyListsTestsToRepeat(t *testing.T) {
	const part = `{"Action":"fail","Package":"p","Test":"TestB/part"}` + "\n"
	race := strings.Replace(fails, "got 1, want 2", "WARNING: DATA RACE", 1)
	for name, c := range map[string]struct{ in, want string }{
		"all is well":       {passes, ""},
		"a failure":         {passes + part + fails, "p TestB\n"},
		"a data race":       {fails + race, ""},
		"a crash":           {fails + dies, ""},
		"what is not built": {fails + strings.ReplaceAll(unbuilt, `"p"`, `"q"`), ""},
		"a skip":            {fails + skips, ""},
	} {
		sum := newTally(&strings.Builder{})
		sum.strict = true
		if err := sum.read(strings.NewReader(c.in)); err != nil {
			t.Fatal(err)
		}
		if got := sum.worthAnotherTry(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
