package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob("../testdata/check/*.yaml")
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
		src := Source{Env: func(string) string { return "" }}
		c, err := src.Read("fuzz.yaml", text)
		if err == nil {
			for _, v := range c.Judgements("krang", "imu", nil) {
				if v.Result == "" || v.From == "" {
					t.Errorf("got %+v, want a result and its reason", v)
				}
			}
			return
		}
		ps, ok := errors.AsType[Problems](err)
		if !ok || len(ps) == 0 {
			t.Fatalf("got %v, want problems", err)
		}
		for _, p := range ps {
			if p.Text == "" || p.Line < 0 || p.Line > 1+bytes.Count(text, []byte("\n"))+bytes.Count(text, []byte("\r")) {
				t.Errorf("got problem %+v, want it to have a line in\n%s", p, text)
			}
		}
	})
}
