package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foxglove/mcap/go/mcap"
)

// foreign writes a file with the MCAP library, as another program would, and returns its path.
func foreign(t *testing.T, write func(w *mcap.Writer) error) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "foreign.mcap")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := mcap.NewWriter(file, &mcap.WriterOptions{Chunked: true, Compression: mcap.CompressionZSTD})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.WriteHeader(&mcap.Header{}), write(w), w.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// The tests use a lower limit than the program, whose 64 MiB would take seconds to reach.
const (
	mostInTests = 1 << 20          // limit of the memory for descriptions of channels, bytes
	piece       = mostInTests / 64 // size of one description, bytes
)

// summarized is like Summarize, but with the limit mostInTests.
func summarized(t *testing.T, path string) error {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.most = mostInTests
	_, err = r.summarize(path)
	return err
}

// A small file can contain large descriptions, because zeros compress well.
func TestForeignFileMemoryIsLimited(t *testing.T) {
	zeros := make([]byte, piece)
	text := string(zeros)
	for what, write := range map[string]func(w *mcap.Writer, i int) error{
		"schemas": func(w *mcap.Writer, i int) error {
			return w.WriteSchema(&mcap.Schema{ID: uint16(i + 1), Name: "x", Encoding: "ros1msg", Data: zeros})
		},
		"channels": func(w *mcap.Writer, i int) error {
			return w.WriteChannel(&mcap.Channel{ID: uint16(i + 1), Topic: "x", Metadata: map[string]string{"ach": text}})
		},
		"metadata": func(w *mcap.Writer, i int) error {
			return w.WriteMetadata(&mcap.Metadata{Name: metadataName, Metadata: map[string]string{"host": text}})
		},
		"drops": func(w *mcap.Writer, i int) error {
			return errors.Join(w.WriteChannel(&mcap.Channel{ID: 1, Topic: DropsTopic}),
				w.WriteMessage(&mcap.Message{ChannelID: 1, Data: fmt.Appendf(nil, `{"channel":"%d%s"}`, i, strings.Repeat("x", piece))}))
		},
		"causes": func(w *mcap.Writer, i int) error {
			return errors.Join(w.WriteChannel(&mcap.Channel{ID: 1, Topic: DropsTopic}),
				w.WriteMessage(&mcap.Message{ChannelID: 1, Data: fmt.Appendf(nil, `{"channel":"x","cause":"%d%s"}`, i, strings.Repeat("x", piece))}))
		},
	} {
		path := foreign(t, func(w *mcap.Writer) (err error) {
			for i := range 70 {
				err = errors.Join(err, write(w, i))
			}
			return err
		})
		if err := summarized(t, path); err == nil || !strings.Contains(err.Error(), "too large: more than") {
			t.Errorf("%s: got %v, want an error of the limit", what, err)
		}
	}
}

func TestRepeatedSchemasAreStoredOnce(t *testing.T) {
	path := foreign(t, func(w *mcap.Writer) (err error) {
		for range 140 {
			err = errors.Join(err, w.WriteSchema(&mcap.Schema{ID: 1, Name: "x", Encoding: "ros1msg", Data: make([]byte, piece/2)}))
		}
		return err
	})
	if err := summarized(t, path); err != nil {
		t.Error(err)
	}
}

func TestForeignFileErrorsHaveNoEscapeSequences(t *testing.T) {
	chunk := mcap.Chunk{Compression: "\x1b[2J", UncompressedSize: 1, Records: []byte{1}}
	var text bytes.Buffer
	w, err := mcap.NewWriter(&text, &mcap.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.WriteHeader(&mcap.Header{}), w.WriteChunkWithIndexes(&chunk, nil)); err != nil {
		t.Fatal(err)
	}
	r, err := read("foreign.mcap", &text, mostInTests, mostInTests)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err = r.Next(); err == nil || err == io.EOF || !plain(err.Error()) {
		t.Errorf("got %q, want an error without control characters", err)
	}
}
