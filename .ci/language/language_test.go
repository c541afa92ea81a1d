package main

import (
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// hitsIn returns the hits of the rules in a file.
func hitsIn(t *testing.T, rulesText, content string) (list rules, hits []string) {
	t.Helper()
	list, err := parseRules(rulesText)
	if err != nil {
		t.Fatal(err)
	}
	r := reader{files: token.NewFileSet(), words: map[string]bool{}}
	if err := r.read("dir/file.go", content); err != nil {
		t.Fatal(err)
	}
	list.match(r.found(), nil)
	for _, rule := range list {
		hits = append(hits, rule.hits...)
	}
	return list, hits
}

func TestHits(t *testing.T) {
	for _, c := range []struct{ name, rule, code, want string }{
		{"comment", "comment told", "// The peer is told.", "dir/file.go:3: The peer is told."},
		{"comment of two lines", "comment is told", "// The peer is\n// told.", "dir/file.go:3: The peer is"},
		{"second line of a comment", "comment told", "// The\n// peer is told.", "dir/file.go:4: peer is told."},
		{"comment at the end of a line", "comment ^of", "var x int // of that", "dir/file.go:3: of that"},
		{"exception", "comment comes \\w+ EXCEPT from$", "// It comes from a peer.", ""},
		{"other match than the exception", "comment comes \\w+ EXCEPT from$", "// It comes late.", "dir/file.go:3: It comes late."},
		{"text of a string is no comment", "comment told", `const x = "told"`, ""},
		{"code for cgo is no comment", "comment told", "// #include <told.h>\nimport \"C\"", ""},
		{"doc of a function", "funcdoc ^\\w+ is what", "// f is what.\nfunc f() {}", "dir/file.go:3: f is what."},
		{"doc of another name", "misnamed ^.*", "// g does.\nfunc f() {}", "dir/file.go:3: g does."},
		{"doc of a longer name", "misnamed ^.*", "// fs does.\nfunc f() {}", "dir/file.go:3: fs does."},
		{"doc of another type", "misnamed ^.*", "// A peer is.\ntype node int", "dir/file.go:3: A peer is."},
		{"doc of another type in a group", "misnamed ^.*", "type (\n\t// peer is.\n\tnode int\n)", "dir/file.go:4: peer is."},
		{"doc of another constant", "misnamed ^.*", "// y is 1.\nconst x = 1", "dir/file.go:3: y is 1."},
		{"doc with an article", "misnamed ^.*", "// A node is.\ntype node int", ""},
		{"comment of a local variable", "misnamed ^.*", "func f() {\n// The sum.\nvar x int\n_ = x }", ""},
		{"doc of a test", "misnamed ^.*", "// Two peers.\nfunc TestPeers() {}", ""},
		{"name that is nowhere", "unknown ^.*$", "// See oldName.", "dir/file.go:3: oldName"},
		{"name in an example", "unknown ^.*$", "// See:\n//\n//\toldName()", ""},
		{"name in the code", "unknown ^.*$", "// See newName.\nvar newName int", ""},
		{"name in a string", "unknown ^.*$", "// See newName.\nvar x = `newName`", ""},
		{"retired name", "name \\bwish\\b", "var oldWish int", "dir/file.go:3: old wish"},
		{"retired name of a local variable", "name \\bwish\\b", "func f() { wishText := 1; _ = wishText }", "dir/file.go:3: wish text"},
		{"part of a word", "name \\bwish\\b", "var wishbone int", ""},
		{"initials", "name \\bhttp server\\b", "var HTTPServer int", "dir/file.go:3: http server"},
		{"name of a file", "name \\bfile\\b", "", "dir/file.go:1: file"},
		{"field", "field ^told$", "type t struct{ told, untold int }", "dir/file.go:3: told"},
		{"parameter is no field", "field ^told$", "func f(told int) {}", ""},
		{"log message", "log ^\"\\w+\"$", `var _ = log.Info("left")`, `dir/file.go:3: "left"`},
		{"longer log message", "log ^\"\\w+\"$", `var _ = log.Info("daemon stopped")`, ""},
		{"name of a test", "test ^.{10,}$", "func TestPeersMeet() {}", "dir/file.go:3: TestPeersMeet"},
		{"function that is no test", "test ^.{10,}$", "func TestingPeers() {}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, hits := hitsIn(t, "0 "+c.rule+" => x", "package p\n\n"+c.code)
			if got := strings.Join(hits, "\n"); got != c.want {
				t.Errorf("hits: got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	const history = "+3 comment told => x\n-3 comment told => x\n+2 comment told => y\n"
	for _, c := range []struct{ name, rule, history, want string }{
		{"as allowed", "2 comment told => send", history, ""},
		{"new rule", "2 comment told => send", "", ""},
		{"one too many", "1 comment told => send", history, "2 hits, at most 1 allowed. Write send."},
		{"one too few", "3 comment told => send", "", "2 hits, 3 allowed. Lower that"},
		{"raised", "2 comment told => send", history + "+1 comment told => z\n", "2 hits, at most 1 allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, _ := hitsIn(t, c.rule, "package p\n\n// told told\n")
			var out strings.Builder
			if ok := list.check(&out, lowestCounts(c.history)); ok != (c.want == "") {
				t.Errorf("check() = %v, printed %q", ok, &out)
			}
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("printed %q, want %q in it", &out, c.want)
			}
		})
	}
}

func TestLowerNeverRaisesCount(t *testing.T) {
	const before = "# A comment.\n5 comment told => x\n1 comment a.c EXCEPT abc => y\n"
	list, _ := hitsIn(t, before, "package p\n\n// told aac adc\n")
	if got, want := list.lower(before), strings.Replace(before, "5", "1", 1); got != want {
		t.Errorf("lower() = %q, want %q", got, want)
	}
}

func TestMatchCountsCommentsInPaths(t *testing.T) {
	list, err := parseRules("0 comment told => x")
	if err != nil {
		t.Fatal(err)
	}
	texts := []text{{"comment", "a/a.go", 1, "told"}, {"comment", "a/b.go", 1, "sent"}, {"comment", "b/b.go", 1, "told"}}
	if got, want := list.match(texts, []string{"a/"}), "2 comments, 50.0 % with a hit"; got != want {
		t.Errorf("match() = %q, want %q", got, want)
	}
}

func TestParseRulesRefusesInvalidLines(t *testing.T) {
	for _, line := range []string{"comment told => x", "1 remark told => x", "1 comment told", "-1 comment told => x"} {
		if list, err := parseRules(line); err == nil {
			t.Errorf("parseRules(%q) = %v, want an error", line, list)
		}
	}
}

// -lower would change both of two equal lines.
func TestRulesAreDistinct(t *testing.T) {
	content, err := os.ReadFile("rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	list, err := parseRules(string(content))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, r := range list {
		if slices.Contains(keys, r.key) {
			t.Errorf("%s: got the rule twice, want once", r.key)
		}
		keys = append(keys, r.key)
	}
}
