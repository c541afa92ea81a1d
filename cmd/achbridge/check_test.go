package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with the file at path. With the flag -update, it writes the file instead.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s\n(go test -update rewrites it)", path, got, want)
	}
}

func TestCheckReportsConfigurationErrors(t *testing.T) {
	t.Chdir("testdata/check")
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("got %d configurations, %v, want ten", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".yaml"), func(t *testing.T) {
			var out, said bytes.Buffer
			a := &app{ui: &ui.Terminal{Out: &out, Err: &said}, Host: view.Host{Places: config.Places{Env: func(string) string { return "" }}}}
			c := &checker{app: a, file: file}
			err := c.run(t.Context())
			if ui.ExitCode(err) != ui.ExitUsage || out.Len() > 0 {
				t.Fatalf("got %v, exit code %d, and %q, want exit code %d and nothing", err, ui.ExitCode(err), out.String(), ui.ExitUsage)
			}
			a.ui.Fail(err)
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", said.Bytes())
		})
	}
}
