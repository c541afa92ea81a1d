// Package logline takes the lines of a log to where they are read, without waiting for
// the reader. A terminal that was stopped, a pipe that is full, or a journal that hangs
// may hold up the log, never who writes it.
package logline

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// maxWaiting is how many bytes of lines wait for the reader at most; further lines are
// left out and counted.
const maxWaiting = 256 << 10

// Writer hands lines on to another writer. It is safe for concurrent use. Its goroutine
// runs only while lines wait.
type Writer struct {
	to io.Writer

	mu      sync.Mutex
	waiting []entry // the first is being written
	bytes   int     // of these
	left    int     // lines left out since the last one that was taken
	failing bool    // the last line could not be written
	empty   chan struct{}
}

// entry is a line, or what tells of lines that were left out.
type entry struct {
	text  []byte
	lines int // that are lost if it cannot be written
}

// New returns a Writer that hands lines on to a writer, which gets one call at a time.
func New(to io.Writer) *Writer { return &Writer{to: to} }

// Write takes a copy of one line, or of several. It neither waits nor fails: a line for
// which there is no room is counted, and the count is told in its place.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes > 0 && w.bytes+len(line) > maxWaiting {
		w.left++
		return len(line), nil
	}
	w.tellLeft()
	w.add(entry{bytes.Clone(line), 1})
	if w.empty == nil {
		w.empty = make(chan struct{})
		go w.drain()
	}
	return len(line), nil
}

// Flush waits until every line is written, at most for limit. It reports whether
// they are.
func (w *Writer) Flush(limit time.Duration) bool {
	w.mu.Lock()
	empty := w.empty
	w.mu.Unlock()
	if empty == nil {
		return true
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-empty:
		return true
	case <-t.C:
		return false
	}
}

// drain writes what waits, and ends when that is all.
func (w *Writer) drain() {
	for line, ok := w.next(nil); ok; line, ok = w.next(line) {
		_, err := w.to.Write(line)
		w.mu.Lock()
		w.failing = err != nil
		w.mu.Unlock()
	}
}

// next is done with the line that was written, nil for none, and returns the one to
// write now.
func (w *Writer) next(written []byte) (line []byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if written != nil {
		if w.failing {
			w.left += w.waiting[0].lines
		}
		w.bytes -= len(written)
		w.waiting = w.waiting[1:]
	}
	if len(w.waiting) == 0 && !w.failing {
		w.tellLeft()
	}
	if len(w.waiting) == 0 {
		w.waiting = nil
		close(w.empty)
		w.empty = nil
		return nil, false
	}
	return w.waiting[0].text, true
}

// tellLeft has the lines told that were left out, if there are any. Needs w.mu.
func (w *Writer) tellLeft() {
	if w.left == 0 {
		return
	}
	var text bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Warn("lines of the log are missing here: nobody read them", "count", w.left)
	w.add(entry{text.Bytes(), w.left})
	w.left = 0
}

// add needs w.mu.
func (w *Writer) add(e entry) {
	w.waiting = append(w.waiting, e)
	w.bytes += len(e.text)
}
