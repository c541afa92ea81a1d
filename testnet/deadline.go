package testnet

import (
	"sync"
	"time"
)

// deadline is a time that can be changed while goroutines wait for it.
type deadline struct {
	mu      sync.Mutex
	timer   *time.Timer
	passed  chan struct{} // closed when the deadline has passed
	changed chan struct{} // closed when the deadline is changed
}

// deadlines are the read and the write deadline of a connection. The zero time means none. A change applies to a call that
// blocks, too.
type deadlines struct{ read, write *deadline }

func newDeadlines() deadlines { return deadlines{newDeadline(), newDeadline()} }

// SetDeadline sets both deadlines.
func (d deadlines) SetDeadline(t time.Time) error {
	d.write.set(t)
	return d.SetReadDeadline(t)
}

// SetReadDeadline sets the deadline of reads.
func (d deadlines) SetReadDeadline(t time.Time) error {
	d.read.set(t)
	return nil
}

// SetWriteDeadline sets the deadline of writes.
func (d deadlines) SetWriteDeadline(t time.Time) error {
	d.write.set(t)
	return nil
}

func newDeadline() *deadline {
	return &deadline{passed: make(chan struct{}), changed: make(chan struct{})}
}

// set changes the deadline. The zero time removes it.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	close(d.changed)
	d.passed, d.changed = make(chan struct{}), make(chan struct{})
	if t.IsZero() {
		return
	}
	past := d.passed
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { close(past) })
		return
	}
	close(past)
}

// signals returns the channels that are closed when the deadline passes and when it
// is changed.
func (d *deadline) signals() (past, moved <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed, d.changed
}
