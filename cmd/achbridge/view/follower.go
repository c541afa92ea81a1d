package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"achbridge/localach"
	"achbridge/wire"
)

// Follower reads frames of up to wire.MaxFrame bytes from one channel, and detects that the
// channel was replaced or removed.
type Follower struct {
	ch        *localach.Channel
	Reader    *localach.Reader
	buf       []byte
	checkedAt time.Time // when the channel was last checked
}

// NewFollower reads a channel from its oldest frame on.
func NewFollower(ch *localach.Channel) *Follower { return &Follower{ch: ch, Reader: ch.Reader()} }

// Patience is the time that a read waits for a frame before it checks whether the channel still exists
// and whether the command must stop.
const Patience = 100 * time.Millisecond

// Wait calls next with Patience, and checks the channel about as often.
func (f *Follower) Wait(next func(time.Duration) ([]byte, error)) ([]byte, error) {
	if now := time.Now(); now.Sub(f.checkedAt) > Patience {
		if err := f.ch.Check(); err != nil {
			return nil, err
		}
		f.checkedAt = now
	}
	return next(Patience)
}

// Each calls got with the frame that first returns and every later one, until ctx ends or got
// returns an error.
func (f *Follower) Each(ctx context.Context, first func(time.Duration) ([]byte, error), got func([]byte) error) error {
	for next := first; ctx.Err() == nil; {
		frame, err := f.Wait(next)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err == nil {
			err = got(frame)
		}
		if err != nil {
			return err
		}
		next = f.Oldest
	}
	return nil
}

// Oldest returns the oldest unseen frame; it is valid until the next call.
func (f *Follower) Oldest(wait time.Duration) ([]byte, error) {
	return f.grow(func() (int, error) { return f.Reader.NextOldest(f.buf, wait) })
}

// Newest returns the newest unseen frame; it is valid until the next call.
func (f *Follower) Newest(wait time.Duration) ([]byte, error) {
	return f.grow(func() (int, error) { return f.Reader.Next(f.buf, wait) })
}

// grow repeats read with a larger buffer until the frame fits. It begins without a buffer: a
// damaged file can claim frames of any size, and a sparse file needs no memory for them.
func (f *Follower) grow(read func() (int, error)) ([]byte, error) {
	for {
		n, err := read()
		if !errors.Is(err, io.ErrShortBuffer) {
			return f.buf[:max(0, min(n, len(f.buf)))], err
		}
		if n > wire.MaxFrame {
			return nil, fmt.Errorf("channel %s: a frame of %d bytes; its frame size is %d, and no frame above %d bytes is read",
				f.ch.Name(), n, f.ch.Geometry().FrameSize, wire.MaxFrame)
		}
		f.buf = make([]byte, n)
	}
}
