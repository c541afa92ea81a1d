package main_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// This file checks which packages may import which, and which packages are pure.
// It checks every Go file, whatever its build tags.

// fence is a rule: files below From must not import packages below Not, except those
// below From itself or below one of But.
type fence struct {
	From, Not, Why string
	But            []string
	Tests          bool // the rule also applies to test files
}

const (
	ours    = "achbridge"
	command = ours + "/cmd/achbridge"
	main    = "cmd/achbridge/" // directory of the program's subpackages
	room    = command + "/"
)

// belowProtocols lists the packages that a protocol of bridge/transport may import.
var belowProtocols = []string{ours + "/bridge/transport/session", ours + "/bridge/trust", ours + "/bridge/via"}

var fences = []fence{
	{From: "wire", Not: ours, Why: "wire imports nothing of ours"},
	{From: "localach", Not: ours, Why: "localach imports nothing of ours"},
	{From: "discovery", Not: ours + "/bridge", But: []string{ours + "/bridge/logline"}, Why: "discovery and bridge do not know each other", Tests: true},
	{From: "bridge/unit", Not: ours, Why: "times are printed of numbers alone", Tests: true},
	{From: "bridge/logline", Not: ours, Why: "who logs says what to log", Tests: true},
	{From: "bridge", Not: ours + "/discovery", Why: "discovery and bridge do not know each other", Tests: true},
	{From: "bridge/transport", Not: ours + "/wire", Why: "a session carries bytes, not messages", Tests: true},
	{From: "bridge/transport/overtls", Not: ours, But: belowProtocols, Why: "a protocol knows no other protocol and no endpoint", Tests: true},
	{From: "bridge/transport/quic", Not: ours, But: belowProtocols, Why: "a protocol knows no other protocol and no endpoint", Tests: true},
	{From: "bridge/transport/sctp", Not: ours, But: belowProtocols, Why: "a protocol knows no other protocol and no endpoint", Tests: true},
	{From: "bridge/transport/session", Not: ours, But: []string{ours + "/bridge/trust", ours + "/bridge/via"}, Why: "a session knows no protocol and no endpoint", Tests: true},
	{From: "bridge/trust", Not: ours, But: []string{ours + "/bridge/secret"}, Why: "trust knows files of keys, and no more of ours"},
	{From: "bridge/age", Not: ours, Why: "an age is of numbers, not of channels", Tests: true},
	{From: "bridge/clock", Not: ours, Why: "a clock is estimated from numbers alone", Tests: true},
	{From: "bridge/delivery", Not: ours, But: []string{ours + "/wire"}, Why: "policy touches no channel", Tests: true},
	{From: "bridge/pacing", Not: ours, But: []string{ours + "/bridge/delivery"}, Why: "policy touches no channel", Tests: true},
	{From: "bridge/seal", Not: ours, But: []string{ours + "/wire"}, Why: "seal knows frames, not who carries them", Tests: true},
	{From: "bridge/secret", Not: ours, Why: "a secret is text in a file", Tests: true},
	{From: "bridge/via", Not: ours, Why: "via only names the protocols", Tests: true},
	{From: "bridge/rule", Not: ours + "/bridge", But: []string{ours + "/bridge/stamps", ours + "/bridge/via"}, Why: "rules know nothing of the node", Tests: true},
	{From: "bridge/operator", Not: ours, But: []string{ours + "/bridge/phases", ours + "/bridge/unit"}, Why: "who holds a lock is decided without the node", Tests: true},
	{From: "bridge/stamps", Not: ours, But: []string{ours + "/bridge/clock", ours + "/bridge/layout"}, Why: "stamps are bytes and times, not channels", Tests: true},
	{From: "bridge/layout", Not: ours, Why: "a layout is of bytes, not of channels", Tests: true},
	{From: "bridge/hubway", Not: ours, But: []string{ours + "/bridge/clock", ours + "/bridge/ledger", ours + "/bridge/lock", ours + "/bridge/mirror", ours + "/bridge/phases", ours + "/bridge/ring", ours + "/bridge/rule", ours + "/bridge/seal", ours + "/bridge/status", ours + "/localach", ours + "/wire"}, Why: "the way through a hub knows no link"},
	{From: "bridge/achdway", Not: ours, But: []string{ours + "/bridge/achd", ours + "/bridge/mirror", ours + "/bridge/ring", ours + "/bridge/rule", ours + "/bridge/status", ours + "/localach", ours + "/wire"}, Why: "the way to hosts with achd knows neither the node nor its links"},
	{From: "bridge/send", Not: ours, But: []string{ours + "/bridge/clock", ours + "/bridge/delivery", ours + "/bridge/ledger", ours + "/bridge/lock", ours + "/bridge/mirror", ours + "/bridge/pacing", ours + "/bridge/ring", ours + "/bridge/rule", ours + "/bridge/status", ours + "/bridge/transport/session", ours + "/bridge/via", ours + "/localach", ours + "/wire"}, Why: "frames over a link know neither the node nor the hub"},
	{From: "bridge/ring", Not: ours, But: []string{ours + "/bridge/ledger", ours + "/bridge/lock", ours + "/bridge/rule", ours + "/bridge/status", ours + "/localach", ours + "/wire"}, Why: "a ring knows no link"},
	{From: "bridge/locals", Not: ours, But: []string{ours + "/bridge/layouts", ours + "/bridge/mirror", ours + "/bridge/ring", ours + "/bridge/status", ours + "/localach", ours + "/wire"}, Why: "local channels know no peer"},
	{From: "bridge/layouts", Not: ours, But: []string{ours + "/bridge/layout", ours + "/bridge/rule", ours + "/bridge/stamps", ours + "/bridge/status", ours + "/wire"}, Why: "layouts are asked for without the node", Tests: true},
	{From: "bridge/peers", Not: ours, But: []string{ours + "/bridge/logline", ours + "/bridge/rule", ours + "/bridge/status", ours + "/bridge/transport", ours + "/bridge/trust", ours + "/bridge/via"}, Why: "who is dialled is decided without the node", Tests: true},
	{From: main + "child", Not: ours, But: []string{room + "ui", ours + "/testnet/await", ours + "/testnet/need"}, Why: "a child runs with a daemon of which it knows nothing", Tests: true},
	{From: main + "debuginfo", Not: ours, But: []string{ours + "/bridge/layout"}, Why: "debuginfo reads files of anybody, and makes layouts", Tests: true},
	{From: main + "ros1msg", Not: ours, But: []string{ours + "/bridge/layout"}, Why: "ros1msg writes layouts in other words"},
	{From: main + "protofile", Not: ours, But: []string{ours + "/bridge/layout"}, Why: "protofile turns untrusted files into layouts", Tests: true},
	{From: main + "protomsg", Not: ours, But: []string{ours + "/bridge/layout"}, Why: "protomsg converts frames, and needs only their layout", Tests: true},
	{From: main + "plot", Not: ours, But: []string{room + "values", room + "ui"}, Why: "a plot is of numbers, not of channels", Tests: true},
	{From: main + "values", Not: ours, But: []string{ours + "/bridge/layout", room + "ui"}, Why: "values are printed of bytes, not of channels", Tests: true},
	{From: main + "migrate", Not: ours, But: []string{ours + "/bridge/rule", ours + "/localach"}, Why: "migrate reads scripts of anybody, and makes text"},
	{From: main + "migrate", Not: "os", Why: "migrate runs nothing and writes no file"},
	{From: "bridge/ledger", Not: ours + "/bridge", But: []string{ours + "/bridge/age", ours + "/bridge/delivery"}, Why: "the ledger counts, and knows nothing of the node", Tests: true},
	{From: "bridge/status", Not: ours + "/bridge", But: []string{ours + "/bridge/via", ours + "/bridge/ledger", ours + "/bridge/rule", ours + "/bridge/age"}, Why: "status is told by the node, and does not ask it", Tests: true},
	{From: "bridge/mirror", Not: ours + "/bridge", But: []string{ours + "/bridge/status", ours + "/bridge/ledger", ours + "/bridge/rule", ours + "/bridge/stamps", ours + "/bridge/age", ours + "/bridge/clock", ours + "/bridge/delivery", ours + "/bridge/lock", ours + "/bridge/operator", ours + "/bridge/phases", ours + "/bridge/unit"}, Why: "a mirror is told what it needs of the node", Tests: true},
	{From: "bridge/achd", Not: ours, But: []string{ours + "/localach", ours + "/bridge/rule"}, Why: "achd's clients see channels, not the node", Tests: true},
	{From: "bridge/hub", Not: ours, But: []string{ours + "/bridge/logline", ours + "/bridge/secret", ours + "/bridge/unit"}, Why: "a hub carries bytes of anybody"},
	{From: main + "hub", Not: command, But: []string{room + "config", room + "service", room + "ui"}, Why: "the hub is no node", Tests: true},
	{From: main + "hub", Not: ours + "/bridge", But: []string{ours + "/bridge/hub", ours + "/bridge/logline", ours + "/bridge/unit"}, Why: "the hub is no node", Tests: true},
	{From: "bridge/lock", Not: ours, Why: "locks know nothing of what they guard", Tests: true},
	{From: "bridge/phases", Not: ours, Why: "phases know nothing of what goes through them", Tests: true},
	{From: main + "ui", Not: ours, But: []string{ours + "/bridge/logline", ours + "/bridge/unit"}, Why: "ui prints, and knows nothing of channels", Tests: true},
	{From: main + "page", Not: ours, Why: "the page is files alone", Tests: true},
	{From: main + "config", Not: command, But: []string{room + "protofile", room + "ui"}, Why: "config stands below the other rooms", Tests: true},
	{From: main + "config", Not: ours + "/bridge", But: []string{ours + "/bridge/rule", ours + "/bridge/layout", ours + "/bridge/stamps", ours + "/bridge/trust", ours + "/bridge/via"}, Why: "config knows rules and keys, not the node", Tests: true},
	{From: main + "foxglove", Not: ours, But: []string{ours + "/bridge/layout", ours + "/bridge/status", ours + "/localach", ours + "/testnet/await", ours + "/testnet/viewer", ours + "/wire", room + "protomsg", room + "ros1msg", room + "ros2msg", room + "service", room + "values"}, Why: "viewers read channels, and know no node", Tests: true},
	{From: main + "ros2msg", Not: ours, But: []string{ours + "/bridge/layout", room + "ros1msg"}, Why: "ros2msg converts frames, and needs only their layout", Tests: true},
	{From: main + "kept", Not: ours, But: []string{ours + "/localach", room + "config", room + "ui"}, Why: "kept frames are files, which the node does not know"},
	{From: main + "diagnose", Not: command, But: []string{room + "ui", room + "config"}, Why: "a diagnosis rests on its snapshot alone", Tests: true},
	{From: main + "diagnose", Not: ours + "/discovery", Why: "a diagnosis rests on its snapshot alone", Tests: true},
	{From: main + "api", Not: room + "daemon", Why: "no client imports the daemon", Tests: true},
	{From: main + "doctor", Not: room + "daemon", Why: "no client imports the daemon", Tests: true},
	{From: main + "export", Not: room + "daemon", Why: "no client imports the daemon", Tests: true},
	{From: main + "top", Not: room + "daemon", Why: "no client imports the daemon", Tests: true},
	{From: main + "recording/snapshots", Not: ours, Why: "when a snapshot is written is decided without channels", Tests: true},
	{From: main + "recording", Not: room + "daemon", Why: "no client imports the daemon", Tests: true},
	{From: main + "view", Not: command, But: []string{room + "api", room + "config", room + "diagnose", room + "ui"}, Why: "a view is of frames, and prints nothing", Tests: true},
	{From: main + "api", Not: ours + "/discovery", Why: "only daemon and ls see discovery and bridge together", Tests: true},
	{From: main + "top", Not: ours + "/discovery", Why: "only daemon and ls see discovery and bridge together", Tests: true},
	{From: main + "doctor", Not: ours + "/bridge", But: []string{ours + "/bridge/trust", ours + "/bridge/via"}, Why: "only daemon and ls see discovery and bridge together"},
	{From: main + "daemon", Not: command, But: []string{room + "api", room + "diagnose", room + "config", room + "foxglove", room + "kept", room + "recording", room + "service", room + "ui", room + "page"}, Why: "the daemon knows no verb", Tests: true},
	{From: main + "service", Not: ours, But: []string{room + "config", room + "ui"}, Why: "a service does not know what it serves", Tests: true},
	{From: main + "demo", Not: command, But: []string{room + "daemon", room + "api", room + "config", room + "ui"}, Why: "the demo is two daemons", Tests: true},
	{From: main + "publish", Not: ours, But: []string{ours + "/bridge/layout", ours + "/localach", room + "config", room + "ui"}, Why: "a publisher is a program like those of a robot"},
	{From: "testnet/await", Not: ours, Why: "every test may import await", Tests: true},
	{From: "testnet/need", Not: ours, Why: "every test may import need", Tests: true},
	{From: "testnet/walk", Not: ours, Why: "every test may import walk", Tests: true},
	{From: "testnet/viewer", Not: ours, Why: "a viewer is written by the text of its protocol alone", Tests: true},
	{From: ".", Not: ours + "/testnet", Why: "testnet is imported by tests and its own programs only"},
}

// cgoPackages lists the packages that may import "C".
var cgoPackages = []string{"localach"}

// forTests lists the packages that every test may import. They import no other package of this module.
var forTests = []string{ours + "/testnet/await", ours + "/testnet/need", ours + "/testnet/walk"}

// reserved lists imports that only some packages may use. It also binds the tests of other packages.
var reserved = []struct {
	What, Why string
	For       []string
}{
	{"github.com/nats-io", "only bridge/hub and cmd/achbridge/hub import NATS", []string{"bridge/hub", main + "hub"}},
	{"github.com/coder/websocket", "only cmd/achbridge/foxglove speaks WebSocket", []string{main + "foxglove"}},
	{ours + "/bridge/hub", "bridge declares an interface for a hub, and imports no hub", []string{"bridge/hub", "cmd/achbridge", "testnet"}},
}

func TestPackagesFollowImportRules(t *testing.T) {
	root := os.DirFS("../..")
	if _, err := fs.Stat(root, "go.mod"); err != nil {
		t.Fatalf("top of the repository: %v", err)
	}
	for _, rule := range fences {
		if _, err := fs.Stat(root, rule.From); err != nil {
			t.Errorf("rule %q is for a package that does not exist: %v", rule.Why, err)
		}
	}
	broken, err := brokenRules(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
}

// TestImportRulesForbidAndAllow tests each rule of the tables above. The test contains no package names, so that a rename
// changes only the tables.
func TestImportRulesForbidAndAllow(t *testing.T) {
	for _, f := range fences {
		dir := path.Join(f.From, "room")
		if !f.forbids(dir+"/a.go", f.Not) || f.forbids(dir+"/a_test.go", f.Not) != f.Tests {
			t.Errorf("%s: rule %q does not forbid %s, or not only where it applies", f.From, f.Why, f.Not)
		}
		for _, may := range append(f.But, path.Join(ours, f.From, "other")) {
			if f.From != "." && f.forbids(dir+"/a.go", may) {
				t.Errorf("%s must not import %s, want it allowed", f.From, may)
			}
		}
	}
	for _, r := range reserved {
		if forbids("elsewhere/a_test.go", r.What) != r.Why || slices.ContainsFunc(r.For, func(dir string) bool { return forbids(dir+"/a.go", r.What) == r.Why }) {
			t.Errorf("rule %q does not forbid %s elsewhere, or forbids it where it is allowed", r.Why, r.What)
		}
	}
	pure := purePackages[0]
	for _, c := range []struct{ file, body, want string }{
		{pure + "/a.go", `import _ "net/netip"`, `is pure, but imports "net/netip"`},
		{pure + "/a.go", `import "time"; var _ = time.Now()`, "is pure, but reads the clock: time.Now"},
		{pure + "/a.go", `import w "time"; var now = w.Since`, "is pure, but reads the clock: time.Since"},
		{pure + "/a.go", `import . "time"; var _ = Now()`, "is pure, but imports time without its name"},
		{pure + "/a.go", `func f() { go f() }`, "is pure, but starts a goroutine"},
		{pure + "/a.go", `import "time"; func f(now time.Time) time.Duration { return now.Sub(now) }`, ""},
		{pure + "/a_test.go", `import "os"; import "time"; var _, _ = os.Args, time.Now()`, ""},
		{"elsewhere/a.go", "//go:build never\n\npackage p\nimport \"C\"", `only localach imports "C"`},
		{cgoPackages[0] + "/a.go", `import "C"`, ""},
		{"elsewhere/testdata/a.go", `import "C"`, ""},
	} {
		broken, err := brokenRules(tree(c.file, c.body))
		if got := strings.Join(broken, "\n"); err != nil || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s with %s: got %q, %v, want %q", c.file, c.body, got, err, c.want)
		}
	}
}

// tree returns a repository with one file.
func tree(file, body string) fs.FS {
	if !strings.Contains(body, "package ") {
		body = "package p\n" + body
	}
	return fstest.MapFS{file: &fstest.MapFile{Data: []byte(body)}}
}

// brokenRules returns a line "file:line: problem" for each violation below root.
func brokenRules(root fs.FS) ([]string, error) {
	var broken []string
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		found, err := brokenIn(name, source)
		broken = append(broken, found...)
		return err
	})
	return broken, err
}

// brokenIn checks one file; name is its path from the top of the repository.
func brokenIn(name string, source []byte) ([]string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var broken []string
	report := func(at token.Pos, format string, args ...any) {
		where := set.Position(at)
		broken = append(broken, fmt.Sprintf("%s:%d: ", name, where.Line)+fmt.Sprintf(format, args...))
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if why := forbids(name, imported); why != "" {
			report(spec.Pos(), "imports %q: %s", imported, why)
		}
	}
	if dir := path.Dir(name); !isTest(name) && slices.ContainsFunc(purePackages, func(p string) bool { return below(dir, p) }) {
		impurities(file, func(at token.Pos, what string) {
			report(at, "package %s is pure, but %s", dir, what)
		})
	}
	return broken, nil
}

// forbids returns why the file must not import the package, or "" if it may.
func forbids(name, imported string) string {
	dir := path.Dir(name)
	if imported == "C" && !slices.ContainsFunc(cgoPackages, func(p string) bool { return below(dir, p) }) {
		return `only localach imports "C"`
	}
	for _, r := range reserved {
		if below(imported, r.What) && !slices.ContainsFunc(r.For, func(p string) bool { return below(dir, p) }) {
			return r.Why
		}
	}
	for _, f := range fences {
		if f.forbids(name, imported) {
			return f.Why
		}
	}
	return ""
}

// forbids reports whether f forbids the file to import the package.
func (f fence) forbids(name, imported string) bool {
	dir := path.Dir(name)
	switch {
	case !below(dir, f.From) || !below(imported, f.Not):
	case f.From != "." && below(imported, path.Join(ours, f.From)): // a package below From
	case slices.ContainsFunc(f.But, func(p string) bool { return below(imported, p) }):
	case isTest(name) && !f.Tests:
	case f.From == "." && below(dir, "testnet"):
	case isTest(name) && slices.Contains(forTests, imported):
	default:
		return true
	}
	return false
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// below reports whether the slash-separated name is top or lies under it.
func below(name, top string) bool {
	return top == "." || name == top || strings.HasPrefix(name, top+"/")
}
