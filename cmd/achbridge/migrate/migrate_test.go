package migrate_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// TestMigrateGoldenFiles compares the configurations of all scripts with golden files, which -update rewrites.
func TestMigrateGoldenFiles(t *testing.T) {
	for _, path := range scripts(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, found, err := migrate.Translate(filepath.Base(path), script)
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
		if text, found, err := migrate.Translate("x", []byte(script)); found || err != nil || text != nil {
			t.Errorf("%q: got %q, %v, %v, want nothing", script, text, found, err)
		}
	}
}

func TestCarriageReturnsAreIgnored(t *testing.T) {
	const script = "ach mk imu\nachd pull krang joints\n"
	want, _, err := migrate.Translate("x", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := migrate.Translate("x", []byte("\ufeff"+strings.ReplaceAll(script, "\n", "\r\n")))
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
			text, found, err := migrate.Translate("x", []byte(script))
			if found != (text != nil) || err != nil && found {
				t.Errorf("%q%q…: got %d bytes, found %v, %v", before, piece, len(text), found, err)
			}
		}
	}
	if _, _, err := migrate.Translate("x", bytes.Repeat([]byte("("), migrate.MaxScript)); err == nil {
		t.Error("got no error for a script of only brackets")
	}
	if _, _, err := migrate.Translate("x", make([]byte, migrate.MaxScript+1)); err == nil {
		t.Error("got no error for a script above the limit")
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
		text, found, err := migrate.Translate("x", script)
		if found != (text != nil) || err != nil && found {
			t.Fatalf("got %d bytes, found %v, %v", len(text), found, err)
		}
		if found {
			isGood(t, text)
		}
	})
}
