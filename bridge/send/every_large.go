package send

import (
	"achbridge/bridge/ring"
)

// largeRead reads the next frame of a subscription in mode every, if it is large: in a goroutine, into memory of its own, from
// which the frame is sent. The link's mu guards it, except for the fields that the goroutine uses meanwhile.
type largeRead struct {
	share   *ring.Share
	turn    ring.Semaphore
	state   largeState
	frame   []byte // the goroutine's while state is largeBusy
	size    int
	err     error
	isEnded bool // the subscription has ended
}

type largeState int

const (
	largeNone largeState = iota
	largeBusy
	largeReady // size and err have the result
)

func (r *largeRead) reading() bool { return r.state == largeBusy }

// readLarge begins to read the oldest frame that sub has not read. l.mu must be held.
func (l *Link) readLarge(sub *Subscription) {
	s := sub.every
	s.large.state = largeBusy
	l.cfg.Copying.Spawn(func() {
		n, err := s.readLarge()
		l.mu.Lock()
		s.large.state, s.large.size, s.large.err = largeReady, n, err
		if s.large.isEnded {
			s.large.forget()
		}
		l.activate(sub)
		l.mu.Unlock()
		l.Wake()
	})
}

func (s *everySender) readLarge() (int, error) {
	n, err := s.large.turn.Read(s.r.TryNextOldest, s.large.grow)
	return n, ring.Refused(s.r, n, err)
}

// grow returns memory for a frame of n bytes.
func (r *largeRead) grow(n int) ([]byte, error) {
	if len(r.frame) >= n {
		return r.frame, nil
	}
	r.give()
	if err := r.share.Reserve(n); err != nil {
		return nil, err
	}
	r.frame = make([]byte, n)
	return r.frame, nil
}

// take returns the result of the reading.
func (r *largeRead) take() (int, error) {
	r.state = largeNone
	if r.err != nil {
		r.forget()
	}
	return r.size, r.err
}

// forget gives the memory back, unless the goroutine reads into it.
func (r *largeRead) forget() {
	if r.state != largeBusy {
		r.give()
	}
}

func (r *largeRead) give() {
	if r.frame != nil {
		r.share.Unreserve(len(r.frame))
	}
	r.frame = nil
}

func (r *largeRead) end() {
	r.isEnded = true
	r.forget()
}
