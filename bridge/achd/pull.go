package achd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// A frame over TCP stands behind a head: magic, and its size in 8 bytes.
const (
	magic       = "achpipe\x00"
	headSize    = 16
	maxDatagram = 65507
)

// pull sends the frames of one channel to one client.
type pull struct {
	c    *client
	ch   *localach.Channel
	r    *localach.Reader
	out  net.Conn
	head int           // bytes before a frame: headSize, 0 over UDP
	news chan struct{} // there is a newer frame
	buf  []byte        // the head and the frame
	took int           // of the server's memory
	last time.Time     // when a frame was sent
}

// How often the channel and the rules are looked at again, and how soon after a
// reader or writer held the lock.
const (
	lookAgain = time.Second
	busyAgain = time.Millisecond
)

// run sends frames until ctx ends or something is wrong. A frame is read only when the last
// one was acknowledged and its time has come: so that what leaves is the newest, or with
// get-last 0 so that the ring is the only queue.
func (p *pull) run(ctx context.Context) error {
	if conn, ok := p.out.(*net.TCPConn); ok {
		_ = conn.SetWriteBuffer(sendBuffer)
	}
	end := p.c.s.cfg.NewData(p.ch, func(uint64, int) {
		select {
		case p.news <- struct{}{}:
		default:
		}
	})
	defer end()
	defer func() { p.c.s.give(p.took) }()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		for ctx.Err() == nil {
			select {
			case <-look.C:
				if err := p.look(); err != nil {
					return err
				}
			default:
			}
			again, err := p.next(ctx)
			if err != nil {
				return err
			}
			if !again {
				break
			}
		}
		select {
		case <-p.news:
		case <-look.C:
			if err := p.look(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// look returns why the client may not go on, or nil. Without an end to the stream, a client of a channel that
// was made anew would wait for ever.
func (p *pull) look() error {
	if err := p.ch.Check(); err != nil {
		return err
	}
	return p.c.s.mayRead(p.c.addr.Addr(), p.c.asked.channel)
}

// next sends one frame; false: there is none.
func (p *pull) next(ctx context.Context) (again bool, err error) {
	if p.ch.LastSeq() == p.r.Seq() {
		return false, nil
	}
	if ready, err := p.ready(ctx); !ready {
		return false, err
	}
	n, err := p.read()
	switch {
	case errors.Is(err, localach.ErrBusy), errors.Is(err, os.ErrDeadlineExceeded): // a put is just at it
		return rest(ctx, busyAgain), nil
	case errors.Is(err, localach.ErrHole), errors.Is(err, io.ErrShortBuffer) && n > p.most():
		p.r.Skip()
		return true, nil
	case errors.Is(err, io.ErrShortBuffer):
		return true, p.grow(n)
	case err != nil:
		return false, err
	case n == 0 && p.head == 0:
		return true, nil // an empty datagram would end achd's receiver
	}
	return p.send(n)
}

// most is the largest frame that can be sent; larger ones are left out.
func (p *pull) most() int {
	if p.head == 0 {
		return maxDatagram
	}
	return maxMemory - headSize
}

func (p *pull) read() (int, error) {
	room := p.buf[min(p.head, len(p.buf)):]
	if p.c.asked.last || p.c.asked.periodNs > 0 {
		return p.r.TryNext(room)
	}
	return p.r.TryNextOldest(room)
}

// roomAtFirst is the most that is taken for a frame that may be smaller.
const roomAtFirst = 32 << 10

// grow makes room for a frame of n bytes and its head.
func (p *pull) grow(n int) error {
	size := p.head + max(n, min(p.ch.Geometry().FrameSize, roomAtFirst))
	if !p.c.s.take(size - p.took) {
		return fmt.Errorf("no memory for frames of %d bytes: all clients together may have %d MiB", n, maxMemory>>20)
	}
	p.took, p.buf = size, make([]byte, size)
	return nil
}

var errDeaf = fmt.Errorf("it has read nothing for %v", maxTimeWrite)

// send writes the frame of n bytes; false: the client has left.
func (p *pull) send(n int) (again bool, err error) {
	if p.head > 0 {
		copy(p.buf, magic)
		binary.LittleEndian.PutUint64(p.buf[len(magic):], uint64(n))
	}
	p.last = time.Now()
	_ = p.out.SetWriteDeadline(p.last.Add(maxTimeWrite))
	_, err = p.out.Write(p.buf[:p.head+n])
	switch {
	case err == nil:
		p.c.sent.Add(1)
		p.c.s.frames.Add(1)
		return true, nil
	case p.head == 0:
		return true, nil // a datagram more or less
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, errDeaf
	}
	p.c.conn.Close() // it has left
	return false, nil
}

// sendBuffer is how many bytes of a frame may wait in the kernel: with much less, a large frame
// would wait for acknowledgements that the other end delays.
const sendBuffer = 128 << 10

// How often the kernel is asked whether a frame was acknowledged: after an eighth of the time
// that it has taken so far.
const (
	pollLeast = 100 * time.Microsecond
	pollMost  = 5 * time.Millisecond
)

// ready waits until the next frame may be read: the last one was acknowledged, and the period
// that the client asked for is over. false: ctx has ended, or err says why the client may not
// go on.
func (p *pull) ready(ctx context.Context) (bool, error) {
	if p.last.IsZero() {
		return true, nil
	}
	for due := p.last.Add(time.Duration(p.c.asked.periodNs)); ; {
		wait := time.Until(due)
		if wait <= 0 {
			break
		}
		if !rest(ctx, min(wait, lookAgain)) {
			return false, nil
		}
		if wait > lookAgain {
			if err := p.look(); err != nil {
				return false, err
			}
		}
	}
	for unacknowledged(p.out) > 0 {
		waited := time.Since(p.last)
		if waited > maxTimeWrite {
			return false, errDeaf
		}
		if !rest(ctx, min(max(waited/8, pollLeast), pollMost)) {
			return false, nil
		}
	}
	return true, nil
}

// unacknowledged is how many bytes of a connection wait in the kernel, or are under way.
func unacknowledged(conn net.Conn) (bytes int) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { bytes, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return bytes
}
