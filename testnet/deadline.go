package testnet

import (
	"sync"
	"time"
)

// deadline is a moment that can be moved while others wait for it.
type deadline struct {
	mu      sync.Mutex
	timer   *time.Timer
	passed  chan struct{} // closed once the moment has come
	changed chan struct{} // closed when it is set anew
}

func newDeadline() *deadline {
	return &deadline{passed: make(chan struct{}), changed: make(chan struct{})}
}

// set moves the deadline; the zero time takes it away.
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

// signals returns the channels that close when the deadline passes and when it
// is moved.
func (d *deadline) signals() (past, moved <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed, d.changed
}
