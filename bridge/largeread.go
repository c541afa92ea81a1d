package bridge

import (
	"errors"
	"io"

	"achbridge/wire"
)

// largeRead is the next frame of a tape when it is large: it is read in a goroutine,
// into memory of its own, and goes from there. Guarded by the link's mu, but for what
// the goroutine has meanwhile.
type largeRead struct {
	stock *stock
	huge  lane
	state largeState
	frame []byte // the goroutine's while state is largeBusy
	size  int
	err   error
	over  bool // the tape has ended
}

type largeState int

const (
	largeNone largeState = iota
	largeBusy
	largeReady // size and err tell what came of it
)

func (r *largeRead) reading() bool { return r.state == largeBusy }

// readLarge begins to read the oldest frame that e's tape has not had. Needs l.mu.
func (l *link) readLarge(e *export) {
	t := e.tape
	t.large.state = largeBusy
	l.n.packers.start(func() {
		n, err := t.readLarge()
		l.mu.Lock()
		t.large.state, t.large.size, t.large.err = largeReady, n, err
		if t.large.over {
			t.large.forget()
		}
		l.rouse(e)
		l.mu.Unlock()
		l.awake()
	})
}

// readLarge looks before it takes memory: the size is somebody's word.
func (t *tape) readLarge() (int, error) {
	leave := func() {}
	n, err := t.r.TryNextOldest(nil)
	for tries := 0; errors.Is(err, io.ErrShortBuffer) && n <= wire.MaxFrame && tries < 3; tries++ { // it may be gone meanwhile
		leave()
		leave = t.large.huge.enter(n)
		if err = t.large.grow(n); err == nil {
			n, err = t.r.TryNextOldest(t.large.frame)
		}
	}
	leave()
	return n, refused(t.r, n, err)
}

func (r *largeRead) grow(n int) error {
	if len(r.frame) >= n {
		return nil
	}
	r.give()
	if err := r.stock.takeStream(n); err != nil {
		return err
	}
	r.frame = make([]byte, n)
	return nil
}

// take returns what came of the reading.
func (r *largeRead) take() (int, error) {
	r.state = largeNone
	if r.err != nil {
		r.forget()
	}
	return r.size, r.err
}

// forget gives the memory back, unless it is being read into.
func (r *largeRead) forget() {
	if r.state != largeBusy {
		r.give()
	}
}

func (r *largeRead) give() {
	if r.frame != nil {
		r.stock.giveStream(len(r.frame))
	}
	r.frame = nil
}

func (r *largeRead) end() {
	r.over = true
	r.forget()
}
