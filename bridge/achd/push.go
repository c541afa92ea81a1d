package achd

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"achbridge/localach"
)

// push writes the frames of one client into one channel.
type push struct {
	c    *client
	ch   *localach.Channel
	w    *localach.Writer
	buf  []byte
	took int // bytes taken from the server's memory limit
}

// foreign marks, in the tag of a mirror, that an achd client has written into it. No other host's newest frame is in
// such a mirror.
const foreign = 0x61636864 // "achd"

// newPush claims the channel for one writer. done releases the claim.
func (c *client) newPush(ch *localach.Channel) (p *push, done func(), err error) {
	tag := ch.OwnTag()
	release, err := c.s.cfg.Claim(c.clientRequest.channel, tag)
	if err != nil {
		return nil, nil, &refusal{tryLater, err.Error()}
	}
	if err := ch.Reserve(); err != nil {
		release()
		return nil, nil, cannotOpen(c.clientRequest.channel, err)
	}
	if tag != (localach.Tag{}) {
		_ = ch.SetTag(localach.Tag{Node: tag.Node, Channel: foreign}, 0)
	}
	p = &push{c: c, ch: ch, w: ch.Writer()}
	return p, func() { p.w.Close(); c.s.give(p.took); release() }, nil
}

// checkClient returns why the client may not continue, or nil.
func (p *push) checkClient() error {
	if err := p.ch.Check(); err != nil {
		return err
	}
	return p.c.s.mayWrite(p.c.addr.Addr(), p.c.clientRequest.channel)
}

// stream writes frames received over TCP until the client disconnects or an error occurs.
func (p *push) stream(ctx context.Context, in *bufio.Reader) error {
	lastCheckAt := time.Now()
	for ctx.Err() == nil {
		_ = p.c.conn.SetReadDeadline(time.Now().Add(checkEvery))
		head, err := in.Peek(headSize)
		late := errors.Is(err, os.ErrDeadlineExceeded)
		if err != nil && !late {
			return nil // the client has disconnected
		}
		if now := time.Now(); late || now.After(lastCheckAt.Add(checkEvery)) {
			if err := p.checkClient(); err != nil {
				return err
			}
			lastCheckAt = now
		}
		if late {
			continue
		}
		size, err := sizeIn(head, p.most())
		if err != nil {
			return err
		}
		_, _ = in.Discard(headSize)
		_ = p.c.conn.SetReadDeadline(time.Now().Add(maxTimeWrite))
		if err := p.fill(in, size); errors.Is(err, net.ErrClosed) {
			return nil // the client has disconnected
		} else if err != nil {
			return err
		}
		if err := p.put(ctx, size); err != nil {
			return err
		}
	}
	return nil
}

// most returns the size of the largest frame that the channel can hold, bytes.
func (p *push) most() int { return largest(p.ch.Geometry()) }

// largest returns the size of the largest frame of a channel that is accepted, bytes.
func largest(g localach.Geometry) int { return min(g.FrameCount*g.FrameSize, maxMemory) }

// sizeIn returns the size of the frame that follows a head over TCP.
func sizeIn(head []byte, most int) (int, error) {
	size := binary.LittleEndian.Uint64(head[len(magic):])
	if string(head[:len(magic)]) != magic || size == 0 || size > uint64(most) {
		return 0, fmt.Errorf("frame with the head %q: want %q and a size of 1 to %d bytes", head, magic, most)
	}
	return int(size), nil
}

// fill reads a frame of n bytes. It returns net.ErrClosed if the client disconnects before the end of the frame. It
// allocates memory as bytes arrive, so that a large size in a head costs nothing by itself.
func (p *push) fill(in io.Reader, n int) error {
	for have := 0; have < n; {
		if have == len(p.buf) {
			if err := p.grow(min(n, max(2*have, roomAtFirst))); err != nil {
				return err
			}
		}
		upTo := min(n, len(p.buf))
		if _, err := io.ReadFull(in, p.buf[have:upTo]); errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("a frame of %d bytes did not come within %v", n, maxTimeWrite)
		} else if err != nil {
			return net.ErrClosed
		}
		have = upTo
	}
	return nil
}

func (p *push) grow(size int) error {
	if !p.c.s.take(size - p.took) {
		return fmt.Errorf("no memory for frames of %d bytes: all clients together may use %d MiB", size, maxMemory>>20)
	}
	p.took = size
	p.buf = append(make([]byte, 0, size), p.buf...)[:size]
	return nil
}

// put writes the frame of n bytes. While another program holds the channel's lock, the client's data waits in the
// kernel. put gives up after maxTimeWrite, or when the client may not write any more.
func (p *push) put(ctx context.Context, n int) error {
	begin := time.Now()
	lastCheckAt := begin
	for {
		_, err := p.w.TryPut(p.buf[:n])
		if err == nil {
			p.c.sent.Add(1)
			p.c.s.frames.Add(1)
			return nil
		}
		now := time.Now()
		switch {
		case !errors.Is(err, localach.ErrBusy):
			return err
		case now.Sub(begin) > maxTimeWrite:
			return fmt.Errorf("another program has held the lock of %s for %v", p.c.clientRequest.channel, maxTimeWrite)
		case now.Sub(lastCheckAt) > checkEvery:
			if err := p.checkClient(); err != nil {
				return err
			}
			lastCheckAt = now
		}
		if !rest(ctx, busyAgain) {
			return nil
		}
	}
}

// datagrams writes frames received over UDP until the client disconnects or an error occurs. A frame larger than nominal
// is written whole, where achd would truncate it. An empty datagram is ignored.
func (p *push) datagrams(ctx context.Context, in net.Conn) error {
	if err := p.grow(maxDatagram); err != nil {
		return err
	}
	most := p.most()
	lastCheckAt := time.Now()
	for ctx.Err() == nil {
		if now := time.Now(); now.After(lastCheckAt) {
			if err := p.checkClient(); err != nil {
				return err
			}
			lastCheckAt = now.Add(checkEvery)
			_ = in.SetReadDeadline(lastCheckAt)
		}
		n, err := in.Read(p.buf)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !rest(ctx, busyAgain) || n == 0 || n > most {
			continue
		}
		if err := p.put(ctx, n); err != nil {
			return err
		}
	}
	return nil
}
