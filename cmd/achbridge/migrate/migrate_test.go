package migrate_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/migrate"
)

var update = flag.Bool("update", false, "write the golden files anew")

func scripts(t testing.TB) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, path := range all {
		if info, err := os.Stat(path); err == nil && !info.IsDir() && filepath.Ext(path) != ".golden" {
			list = append(list, path)
		}
	}
	if len(list) < 12 {
		t.Fatalf("got the scripts %q, want twelve", list)
	}
	return list
}

func translate(script string) (text []byte, found bool, err error) {
	return migrate.Translate(migrate.Script{Name: "x", Text: []byte(script)})
}

// TestMigrateGoldenFiles compares the configurations of all scripts with golden files, which -update rewrites.
func TestMigrateGoldenFiles(t *testing.T) {
	for _, path := range scripts(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, found, err := migrate.Translate(migrate.Script{Name: filepath.Base(path), Text: script})
			if err != nil || !found {
				t.Fatalf("got found %v, %v, want true", found, err)
			}
			isGood(t, got)
			golden := path + ".golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v: go test ./cmd/achbridge/migrate -update writes it", err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// isGood fails the test if the daemon would refuse the configuration.
func isGood(t *testing.T, text []byte) {
	t.Helper()
	src := config.Source{Env: func(string) string { return "" }}
	if _, err := src.Read("out.yaml", text); err != nil {
		t.Errorf("invalid configuration: %v\n%s", err, text)
	}
}

func TestScriptsWithoutAchdHaveNoConfiguration(t *testing.T) {
	for _, script := range []string{"", "#!/bin/sh\n# achd pull krang imu\necho reach for achd\n", "cd /opt/ach && make\n", "\x00\xff(("} {
		if text, found, err := translate(script); found || err != nil || text != nil {
			t.Errorf("%q: got %q, %v, %v, want nothing", script, text, found, err)
		}
	}
}

func TestCarriageReturnsAreIgnored(t *testing.T) {
	const script = "ach mk imu\nachd pull krang joints\n"
	want, _, err := translate(script)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := translate("\ufeff" + strings.ReplaceAll(script, "\n", "\r\n"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %v and\n%s\nwant\n%s", err, got, want)
	}
}

// Only an attacker writes such scripts. Deep nesting would overflow the parser's stack.
func TestDeepAndLargeScriptsAreRefused(t *testing.T) {
	for _, piece := range []string{"(", "(\n", "{ ", "$(", "`", "if ", "while ", "! ", "${a:-", "${a[", "$((", "((", "[[ ( ", "((-", "$((!", "case x in a) ",
		"f() ", "f()\n", "time ", "for i in x; do ", "coproc ", "<(", "a && ", "a | ", "[[ ! ", "a=(", "-", "~", "a=", "a?", "a**", "$[", "\\\n", "\"${a:-"} {
		for _, before := range []string{"achd pull ", "$(("} {
			script := before + strings.Repeat(piece, (migrate.MaxScript-len(before))/len(piece))
			text, found, err := translate(script)
			if found != (text != nil) || err != nil && found {
				t.Errorf("%q%q…: got %d bytes, found %v, %v", before, piece, len(text), found, err)
			}
		}
	}
	if _, _, err := translate(strings.Repeat("(", migrate.MaxScript)); err == nil {
		t.Error("got no error for a script of only brackets")
	}
	if _, _, err := translate(strings.Repeat("\x00", migrate.MaxScript+1)); err == nil {
		t.Error("got no error for a script above the limit")
	}
}

// Only an attacker writes such scripts. Variables that contain one another, and functions that call one another, would
// take exponential time.
func TestScriptsThatRepeatThemselvesAreLimited(t *testing.T) {
	var doubled, called strings.Builder
	doubled.WriteString("A0=xx\n")
	for i := range 60 {
		fmt.Fprintf(&doubled, "A%d=\"$A%d$A%d\"\n", i+1, i, i)
		fmt.Fprintf(&called, "f%d() { f%d a; f%d b; }\n", i, i+1, i+1)
	}
	loops := strings.Repeat("for a in 1 2 3 4 5 6 7 8 9; do ", 20) + "ach mk x$a; " + strings.Repeat("done; ", 20)
	for _, script := range []string{doubled.String() + "achd pull $A60 imu", called.String() + "f60() { ach mk $1; }; f0", loops, "f() { f x$1; ach mk $1; }; f y"} {
		begin := time.Now()
		if _, found, err := translate(script); !found || err != nil {
			t.Errorf("%.20s…: got %v, %v, want a configuration", script, found, err)
		}
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("%.20s…: took %v", script, took)
		}
	}
}

func FuzzTranslate(f *testing.F) {
	for _, path := range scripts(f) {
		script, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		text, found, err := translate(string(script))
		if found != (text != nil) || err != nil && found {
			t.Fatalf("got %d bytes, found %v, %v", len(text), found, err)
		}
		if found {
			isGood(t, text)
		}
	})
}
