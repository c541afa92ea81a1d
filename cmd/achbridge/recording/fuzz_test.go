package recording

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzReader reads whatever calls itself a recording: it ends, with records or an error
// that names the file.
func FuzzReader(f *testing.F) {
	path, _ := written(f, 4)
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)/2])
	typed, err := os.ReadFile(typedFile(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(typed)
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "run.mcap")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v, want an error that names the file", err)
			}
			return
		}
		defer r.Close()
		for {
			_, err := r.Next()
			if err == nil {
				continue
			}
			if err != io.EOF && !errors.Is(err, ErrCut) && !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v, want an error that names the file", err)
			}
			break
		}
	})
}
