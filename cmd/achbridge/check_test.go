package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file of testdata; the flag -update writes it.
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
		t.Errorf("%s: got\n%s\nwant\n%s\n(go test -update writes it anew)", path, got, want)
	}
}

func TestWrongConfigurationsAreToldAsInTheGoldenFiles(t *testing.T) {
	t.Chdir("testdata/check")
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d configurations, %v, want ten", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".yaml"), func(t *testing.T) {
			var out, said bytes.Buffer
			a := &app{ui: &ui{out: &out, err: &said}, env: func(string) string { return "" }}
			c := &checker{app: a, file: file}
			err := c.run(t.Context())
			if exitCode(err) != exitUsage || out.Len() > 0 {
				t.Fatalf("got %v, exit code %d, and %q, want exit code %d and nothing", err, exitCode(err), out.String(), exitUsage)
			}
			a.ui.fail(err)
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", said.Bytes())
		})
	}
}

func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob("testdata/check/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, exampleFile) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("a: *a\nb: &b [*b]\n<<: {x: 1}\n? [c]\n: d\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		src := configSource{env: func(string) string { return "" }}
		c, err := src.read("fuzz.yaml", text)
		if err == nil {
			for _, v := range c.verdicts("krang", "imu", nil) {
				if v.Result == "" || v.From == "" {
					t.Errorf("got %+v, want what applies and why", v)
				}
			}
			return
		}
		ps, ok := errors.AsType[problems](err)
		if !ok || len(ps) == 0 {
			t.Fatalf("got %v, want problems", err)
		}
		for _, p := range ps {
			if p.Text == "" || p.Line < 0 || p.Line > 1+bytes.Count(text, []byte("\n"))+bytes.Count(text, []byte("\r")) {
				t.Errorf("got %+v, want a problem with its place in\n%s", p, text)
			}
		}
	})
}
