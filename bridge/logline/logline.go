// Package logline writes log lines to their reader without blocking the caller. A stopped terminal, a full pipe or a
// hanging journal can delay the log, but never the program that writes it.
package logline

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// maxWaiting is the maximum size of lines waiting for the reader, bytes. Further lines are dropped and counted.
const maxWaiting = 256 << 10

// Writer passes lines on to another writer. It is safe for concurrent use. Its goroutine runs only while lines wait.
type Writer struct {
	to io.Writer

	mu         sync.Mutex
	waiting    []entry // the first one is being written
	bytes      int     // size of the waiting entries
	unreported int     // lines that were dropped or could not be written, and are not reported yet
	failing    bool    // the last write failed
	empty      chan struct{}
}

// entry is one write of log lines, or a line that reports dropped ones.
type entry struct {
	text  []byte
	lines int // number of log lines that are lost if the entry cannot be written
}

// New returns a Writer that passes lines on to another writer, one call at a time.
func New(to io.Writer) *Writer { return &Writer{to: to} }

// Write copies one or more lines. It neither blocks nor fails. A call without room is dropped and counted as one line; a
// line with the number of dropped lines is written in their place.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes > 0 && w.bytes+len(line) > maxWaiting {
		w.unreported++
		return len(line), nil
	}
	w.reportDropped()
	w.add(entry{bytes.Clone(line), 1})
	if w.empty == nil {
		w.empty = make(chan struct{})
		go w.drain()
	}
	return len(line), nil
}

// Flush waits until every line is written, but at most for limit. It reports whether every line was written.
func (w *Writer) Flush(limit time.Duration) bool {
	w.mu.Lock()
	empty := w.empty
	w.mu.Unlock()
	if empty == nil {
		return true
	}
	select {
	case <-empty:
		return true
	case <-time.After(limit):
		return false
	}
}

// drain writes the waiting entries, and returns when there are no more.
func (w *Writer) drain() {
	for line, ok := w.next(nil); ok; line, ok = w.next(line) {
		_, err := w.to.Write(line)
		w.mu.Lock()
		w.failing = err != nil
		w.mu.Unlock()
	}
}

// next removes the entry that was written (nil for none), and returns the next one to write.
func (w *Writer) next(written []byte) (line []byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if written != nil {
		if w.failing {
			w.unreported += w.waiting[0].lines
		}
		w.bytes -= len(written)
		w.waiting = w.waiting[1:]
	}
	if len(w.waiting) == 0 && !w.failing {
		w.reportDropped()
	}
	if len(w.waiting) == 0 {
		w.waiting = nil
		close(w.empty)
		w.empty = nil
		return nil, false
	}
	return w.waiting[0].text, true
}

// reportDropped queues a line with the number of dropped lines, if there are any. w.mu must be held.
func (w *Writer) reportDropped() {
	if w.unreported == 0 {
		return
	}
	var text bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Warn("lines of the log are missing here: nobody read them", "count", w.unreported)
	w.add(entry{text.Bytes(), w.unreported})
	w.unreported = 0
}

// add queues an entry. w.mu must be held.
func (w *Writer) add(e entry) {
	w.waiting = append(w.waiting, e)
	w.bytes += len(e.text)
}
