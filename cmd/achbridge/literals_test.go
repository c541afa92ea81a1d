package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What stands in one place only, in all Go files without tests but those of testnet: the
// words of states and transports, the clock, and what an error is. Each list that ends in
// Yet names what is still to be mended, by file and line of code, and only gets shorter.

// typed are words that stand only in the file which defines their type: what compares them
// elsewhere compares values of that type.
var typed = []string{"live", "stale", "quic", "sctp"}

// typedHere are the files that define the types, or speak to others in these words: a DNS
// record does.
var typedHere = []string{"bridge/status/state.go", "bridge/via/kind.go", "discovery/peer.go"}

var typedYet []string

// clocks are the files that read the clock themselves; others are given the time. They are
// named without their directories, but for those of package bridge.
var clocks = map[string]string{
	"sockets and sessions, which have deadlines": "acquaintances.go quic_socket.go refusals.go sctp.go sctp_life.go sctp_link.go sctp_meeting.go " +
		"sctp_address.go sctp_socket.go sctp_stream.go sctp_tap.go sctp_ack.go bridge/transport/hub.go bridge/transport/hub_link.go",
	"certificates, which end":               "host_anchor.go ca.go trust.go",
	"verbs that measure, wait or repeat":    "channel_cat.go channel_hz.go channel_put.go check.go clock.go ls.go peek.go linkto.go status.go watch.go follower.go events.go plot.go",
	"the daemon's own rounds":               "fit.go feed_viewer.go overview.go troubles.go why.go",
	"recordings, which have the wall's":     "player.go recorder.go writer.go",
	"discovery, which sends and forgets":    "achd_search.go announcer.go browser.go listen.go probe.go registration.go",
	"channels, which are waited for":        "dirwatch.go reader.go rescan.go watcher.go",
	"achd's connections, with deadlines":    "bridge/achd/client.go bridge/achd/connection.go bridge/achd/push.go bridge/achd/sender.go bridge/achd/server.go",
	"the node's clock and the wall's, once": "bridge/node.go",
	"events, which have the wall's":         "bridge/status/journal.go",
	"the way to a hub, with deadlines":      "bridge/hub/client.go bridge/hub/flow.go bridge/hub/keep.go bridge/hub/presence.go bridge/hub/pull.go bridge/hub/put.go bridge/hub/session.go",
	"the hub, whose members come and go":    "guard.go keeper.go log.go maker.go server.go",
}

// clockYet are places in package bridge and below, where the node's clock counts.
var clockYet []string

// errorsOfOthers are the places where an error of a library says in its text alone what it
// is about: YAML's.
var errorsOfOthers = []string{
	`file.go: text, _, _ = strings.Cut(text, "\n")`,
	`file.go: p.add(at, "%s", strings.TrimSuffix(text, ".")+hintFor(text))`,
}

func TestWordsOfTypesStandWithTheirTypes(t *testing.T) {
	t.Parallel()
	onlyYet(t, "compares or makes a word of a type", typedIn(t, os.DirFS("../..")), typedYet)
}

// typedIn are the lines with words of types.
func typedIn(t *testing.T, root fs.FS) (found []string) {
	eachFile(t, root, func(f *sourceFile) {
		if slices.Contains(typedHere, f.name) {
			return
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil && slices.Contains(typed, text) {
					found = append(found, f.at(literal))
				}
			}
			return true
		})
	})
	return found
}

func TestClockIsReadInNamedFiles(t *testing.T) {
	t.Parallel()
	found, idle := clocksIn(t, os.DirFS("../.."))
	onlyYet(t, "reads the clock", found, clockYet)
	for _, name := range idle {
		t.Errorf("no file %s reads the clock: take it out of clocks", name)
	}
}

// clocksIn are the lines that read the clock in files which clocks does not name, and the
// names in clocks for which no file reads it.
func clocksIn(t *testing.T, root fs.FS) (found, idle []string) {
	var named []string
	for _, files := range clocks {
		named = append(named, strings.Fields(files)...)
	}
	used := map[string]bool{}
	eachFile(t, root, func(f *sourceFile) {
		clock := f.imported("time")
		ast.Inspect(f.file, func(n ast.Node) bool {
			from, ok := n.(*ast.SelectorExpr)
			if !ok || clock == "" || from.Sel.Name != "Now" {
				return true
			}
			if x, ok := from.X.(*ast.Ident); !ok || x.Name != clock {
				return true
			}
			if i := slices.IndexFunc(named, f.called); i >= 0 {
				used[named[i]] = true
			} else {
				found = append(found, f.at(from))
			}
			return true
		})
	})
	return found, slices.DeleteFunc(named, func(name string) bool { return used[name] })
}

// called reports whether a file is called so in the list: by its path where the node's clock
// counts, and else without its directories.
func (f *sourceFile) called(name string) bool {
	outside := !below(f.name, "bridge") || below(f.name, "bridge/transport") || below(f.name, "bridge/trust")
	return name == f.name || outside && name == path.Base(f.name)
}

// cuts are functions that take text off the beginning or the end of another.
var cuts = []string{"TrimPrefix", "TrimSuffix", "CutPrefix", "CutSuffix", "TrimLeft", "TrimRight", "Cut"}

func TestNoTextIsCutOffAnError(t *testing.T) {
	t.Parallel()
	onlyYet(t, "cuts text off an error", cutsIn(t, os.DirFS("../..")), errorsOfOthers)
}

// cutsIn are the lines that cut text off an error.
func cutsIn(t *testing.T, root fs.FS) (found []string) {
	eachFile(t, root, func(f *sourceFile) {
		library := f.imported("strings")
		ast.Inspect(f.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			of, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(cuts, of.Sel.Name) {
				return true
			}
			if x, ok := of.X.(*ast.Ident); ok && x.Name == library && f.ofError(call.Args[0]) {
				found = append(found, f.at(call))
			}
			return true
		})
	})
	return found
}

func TestEverySearchFindsWhatItShould(t *testing.T) {
	clocksOf := func(t *testing.T, root fs.FS) []string { found, _ := clocksIn(t, root); return found }
	for _, c := range []struct {
		search     func(*testing.T, fs.FS) []string
		file, body string
		finds      bool
	}{
		{typedIn, "cmd/achbridge/a.go", `var a = "live"`, true},
		{typedIn, "bridge/b/a.go", "var a = `sctp`", true},
		{typedIn, "bridge/status/state.go", `var a = "live"`, false},
		{typedIn, "bridge/a_test.go", `var a = "live"`, false},
		{typedIn, "testnet/a.go", `var a = "live"`, false},
		{typedIn, "bridge/a.go", `var a = "alive"`, false},
		{clocksOf, "bridge/a.go", `import "time"; var a = time.Now()`, true},
		{clocksOf, "bridge/a.go", `import w "time"; var a = w.Now`, true},
		{clocksOf, "bridge/mirror/reader.go", `import "time"; var a = time.Now()`, true},
		{clocksOf, "bridge/transport/sctp.go", `import "time"; var a = time.Now()`, false},
		{clocksOf, "bridge/node.go", `import "time"; var a = time.Now()`, false},
		{clocksOf, "cmd/achbridge/daemon/peek.go", `import "time"; var a = time.Now()`, false},
		{clocksOf, "cmd/achbridge/daemon/other.go", `import "time"; var a = time.Now()`, true},
		{cutsIn, "bridge/a.go", `import "strings"; func f(err error) string { return strings.TrimPrefix(err.Error(), "x") }`, true},
		{cutsIn, "bridge/a.go", `import "strings"; func f(err error) string { text := err.Error(); return strings.TrimSuffix(text, "x") }`, true},
		{cutsIn, "bridge/a.go", `import "strings"; func f(text string) string { return strings.TrimPrefix(text, "x") }`, false},
	} {
		found := c.search(t, tree(c.file, c.body))
		if (len(found) > 0) != c.finds {
			t.Errorf("%s with %s: found %q, want anything: %v", c.file, c.body, found, c.finds)
		}
	}
}

// onlyYet wants of what was found that it is in the list, and of the list that it was found.
func onlyYet(t *testing.T, does string, found, yet []string) {
	t.Helper()
	for _, line := range found {
		if !slices.Contains(yet, line) {
			t.Errorf("%s: %s", line, does)
		}
	}
	for _, line := range yet {
		if !slices.Contains(found, line) {
			t.Errorf("%s: not there any more: take it out of the list", line)
		}
	}
}

// sourceFile is a Go file; name is its path from the top of the repository.
type sourceFile struct {
	name  string
	set   *token.FileSet
	file  *ast.File
	lines []string
}

// eachFile does f for each Go file without tests below root, but for testnet.
func eachFile(t *testing.T, root fs.FS, f func(*sourceFile)) {
	t.Helper()
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name == "testnet" || d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".go" || isTest(name) {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f(&sourceFile{name, set, file, strings.Split(string(text), "\n")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// at is the line of code at a node, behind the file's name without its directories, so that
// it is the same when the file moves.
func (f *sourceFile) at(n ast.Node) string {
	return fmt.Sprintf("%s: %s", path.Base(f.name), strings.TrimSpace(f.lines[f.set.Position(n.Pos()).Line-1]))
}

// imported is the name that the file has for a package of the standard library, or "".
func (f *sourceFile) imported(library string) string {
	for _, spec := range f.file.Imports {
		if spec.Path.Value == strconv.Quote(library) {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return library
		}
	}
	return ""
}

// ofError reports whether an expression has the text of an error in it, or a variable to
// which one was given.
func (f *sourceFile) ofError(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			of, ok := n.Fun.(*ast.SelectorExpr)
			found = found || ok && of.Sel.Name == "Error" && len(n.Args) == 0
		case *ast.Ident:
			found = found || f.holdsError(n)
		}
		return true
	})
	return found
}

// holdsError reports whether the function around a variable gives it the text of an error.
func (f *sourceFile) holdsError(variable *ast.Ident) bool {
	found := false
	for _, d := range f.file.Decls {
		if around, ok := d.(*ast.FuncDecl); !ok || variable.Pos() < around.Pos() || variable.Pos() > around.End() {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			gives, ok := n.(*ast.AssignStmt)
			if !ok || len(gives.Lhs) != len(gives.Rhs) {
				return true
			}
			for i, to := range gives.Lhs {
				name, ok := to.(*ast.Ident)
				call, isCall := gives.Rhs[i].(*ast.CallExpr)
				if !ok || !isCall || name.Name != variable.Name {
					continue
				}
				of, ok := call.Fun.(*ast.SelectorExpr)
				found = found || ok && of.Sel.Name == "Error" && len(call.Args) == 0
			}
			return true
		})
	}
	return found
}
