//go:build lockorder

package lock

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Mutex is a mutex that panics when a goroutine takes it in the wrong order. Its zero
// value is ready.
type Mutex[R rank] struct {
	mu    sync.Mutex
	noted bool // locksHeld has it, as long as it is held
}

// locksTaken counts, because to ask for the number of a goroutine takes long: of 8000
// locks 1000 in a row are checked.
var locksTaken atomic.Uint64

func (l *Mutex[R]) Lock() {
	noted := locksTaken.Add(1)/1000%8 == 0
	if noted {
		locksHeld.take(rankOf[R]())
	}
	l.mu.Lock()
	l.noted = noted
}

// TryLock takes the mutex if nobody holds it. It must keep to the order too.
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

// locksHeld are the locks that each goroutine holds, or waits for.
var locksHeld heldLocks

type heldLocks struct {
	mu sync.Mutex
	by map[string][]heldLock // by the goroutine's number
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

// giveBack forgets the lock of that place, of which a goroutine has one at most.
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

// goroutine is the number of the goroutine that calls it.
func goroutine() string {
	var buf [64]byte
	_, rest, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte(" "))
	id, _, _ := bytes.Cut(rest, []byte(" "))
	return string(id)
}
