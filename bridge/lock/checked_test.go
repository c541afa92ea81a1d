//go:build lockorder

package lock

import (
	"strings"
	"testing"
)

func TestWrongLockOrderIsDetected(t *testing.T) {
	locksTaken.Store(0) // the next thousand operations are checked
	var m Mutex[Mirror]
	var l Mutex[Link]
	m.Lock()
	l.Lock() // the correct order
	l.Unlock()
	m.Unlock()
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "mirror.mu is taken under send.Link.mu") {
			t.Errorf("got %q, want both locks named", text)
		}
		l.Unlock()
	}()
	l.Lock()
	m.Lock()
}
