//go:build lockorder

package lock

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Mutex is a mutex that panics if a goroutine locks it in the wrong order. The zero value is unlocked.
type Mutex[R rank] struct {
	mu    sync.Mutex
	noted bool // locksHeld includes the mutex while it is locked
}

// locksTaken counts lock operations. Only 1000 of every 8000 are checked, since determining the goroutine's
// number is slow.
var locksTaken atomic.Uint64

func (l *Mutex[R]) Lock() {
	noted := locksTaken.Add(1)/1000%8 == 0
	if noted {
		locksHeld.take(rankOf[R]())
	}
	l.mu.Lock()
	l.noted = noted
}

// TryLock locks the mutex if it is unlocked, and reports whether it succeeded. The order of locks applies to
// TryLock too.
func (l *Mutex[R]) TryLock() bool {
	noted := locksTaken.Add(1)/1000%8 == 0
	if !l.mu.TryLock() {
		return false
	}
	if l.noted = noted; noted {
		locksHeld.take(rankOf[R]())
	}
	return true
}

func (l *Mutex[R]) Unlock() {
	noted := l.noted
	l.mu.Unlock()
	if noted {
		place, _ := rankOf[R]()
		locksHeld.giveBack(place)
	}
}

func rankOf[R rank]() (int, string) {
	var r R
	return r.rank()
}

// locksHeld records the mutexes that each goroutine holds or waits for.
var locksHeld heldLocks

type heldLocks struct {
	mu sync.Mutex
	by map[string][]heldLock // held locks of each goroutine, keyed by its number
}

type heldLock struct {
	place int
	name  string
}

func (h *heldLocks) take(place int, name string) {
	id := goroutine()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.by[id] {
		if held.place >= place {
			panic(fmt.Sprintf("locks in the wrong order: %s is taken under %s, see lock.go", name, held.name))
		}
	}
	if h.by == nil {
		h.by = make(map[string][]heldLock)
	}
	h.by[id] = append(h.by[id], heldLock{place, name})
}

// giveBack removes the lock of rank place. A goroutine holds at most one of each rank.
func (h *heldLocks) giveBack(place int) {
	id := goroutine()
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.by[id]
	for i, held := range list {
		if held.place == place {
			h.by[id] = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(h.by[id]) == 0 {
		delete(h.by, id)
	}
}

// goroutine returns the number of the calling goroutine.
func goroutine() string {
	var buf [64]byte
	_, rest, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte(" "))
	id, _, _ := bytes.Cut(rest, []byte(" "))
	return string(id)
}
