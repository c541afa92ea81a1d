package recording

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// FuzzReader tests that reading any bytes ends, with records or with an error that names the file.
// The fuzzer reads from memory, with a limit of 1 MiB. Other tests check the memory for larger
// sizes.
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
		const path, most = "run.mcap", 1 << 20
		r, err := read(path, bytes.NewReader(text), most, most)
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
