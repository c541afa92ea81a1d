package logline

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a writer that can stall or fail.
type gate struct {
	open     chan struct{} // closed while writes pass
	isClosed bool
	text     bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	if g.isClosed {
		return 0, errors.New("broken pipe")
	}
	return g.text.Write(p)
}

func TestLinesAreWrittenInOrder(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	w := New(g)
	want := ""
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		fmt.Fprint(w, line)
		want += line
	}
	if !w.Flush(10 * time.Second) {
		t.Fatal("not written within 10 s")
	}
	if g.text.String() != want {
		t.Errorf("got %q, want %q", g.text.String(), want)
	}
}

func TestStalledReaderDoesNotBlockWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		w := New(g)
		line := strings.Repeat("x", 1023) + "\n"
		began := time.Now()
		for range 300 {
			if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
				t.Fatalf("got %d, %v, want %d, nil", n, err, len(line))
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("Write took %v with a stalled reader, want no waiting", took)
		}
		if w.Flush(time.Second) || time.Since(began) != time.Second {
			t.Errorf("flush gave up after %v, want 1s", time.Since(began))
		}
		close(g.open)
		if !w.Flush(time.Second) {
			t.Error("lines are still queued, want them written: the reader has resumed")
		}
		fmt.Fprint(w, "after\n")
		w.Flush(time.Second)
		lines := strings.Split(strings.TrimSuffix(g.text.String(), "\n"), "\n")
		if len(lines) != 258 || !strings.Contains(lines[256], "count=44") || lines[257] != "after" {
			t.Errorf("got %d lines, the last two %q, want 256, one with count=44, and the last", len(lines), lines[max(0, len(lines)-2):])
		}
	})
}

func TestOmittedLinesAreReportedInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		w := New(g)
		fmt.Fprint(w, strings.Repeat("x", maxWaiting-10)+"\n")
		fmt.Fprint(w, "does not fit\n")
		fmt.Fprint(w, "fits\n")
		close(g.open)
		w.Flush(time.Second)
		lines := strings.Split(g.text.String(), "\n")
		if len(lines) != 4 || !strings.Contains(lines[1], "count=1") || lines[2] != "fits" {
			t.Errorf("got %q behind the first, want a line with count=1 and the one that fits", lines[1:])
		}
	})
}

func TestUnwritableLinesAreCounted(t *testing.T) {
	g := &gate{open: make(chan struct{}), isClosed: true}
	close(g.open)
	w := New(g)
	for range 3 {
		fmt.Fprint(w, "lost\n")
		if !w.Flush(10 * time.Second) {
			t.Fatal("Flush timed out after a failed write, want the line dropped")
		}
	}
	g.isClosed = false
	fmt.Fprint(w, "back\n")
	w.Flush(10 * time.Second)
	if got := g.text.String(); !strings.Contains(got, "count=3\nback\n") {
		t.Errorf("got %q, want a line with count=3 and the one after", got)
	}
}
