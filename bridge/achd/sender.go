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

// Over TCP each frame follows a head: magic, and the size of the frame in 8 bytes.
const (
	magic       = "achpipe\x00"
	headSize    = 16
	maxDatagram = 65507
)

// sender sends the frames of one channel over one connection: to a client that pulls, or to a host that our client
// pushes to.
type sender struct {
	ch      *localach.Channel
	r       *localach.Reader
	out     net.Conn
	head    int           // bytes before a frame: headSize over TCP, 0 over UDP
	newest  bool          // send the newest frame each time; otherwise the oldest unsent one
	period  time.Duration // minimum interval between two frames
	newData NewData
	may     func() error     // returns why the sender may not continue, or nil; called every second
	take    func(n int) bool // takes n bytes of memory, releases them if n is negative; returns false at the limit
	count   func()           // called after each sent frame
	news    chan struct{}    // receives a value when there is a newer frame
	buf     []byte           // holds the head and the frame
	took    int              // bytes taken from the memory limit
	last    time.Time        // when the last frame was sent
}

// newPull returns the sender for the client's request.
func (c *client) newPull(ch *localach.Channel, udp net.Conn) *sender {
	s := &sender{
		ch: ch, r: ch.ReaderAfter(ch.LastSeq()), out: c.conn, head: headSize, news: make(chan struct{}, 1), newData: c.s.cfg.NewData, take: c.s.take,
		newest: c.clientRequest.last || c.clientRequest.periodNs > 0, period: time.Duration(c.clientRequest.periodNs),
		may:   func() error { return c.s.mayRead(c.addr.Addr(), c.clientRequest.channel) },
		count: func() { c.sent.Add(1); c.s.frames.Add(1) },
	}
	if udp != nil {
		s.out, s.head = udp, 0
	}
	return s
}

// Intervals between checks of the channel and the rules, and before a retry when another program held the lock.
const (
	checkEvery = time.Second
	busyAgain  = time.Millisecond
)

// run sends frames until ctx ends or an error occurs. It reads a frame only after the previous one was acknowledged and
// the period has passed. It therefore sends the newest frame, or, with get-last 0, keeps the ring as the only queue.
func (p *sender) run(ctx context.Context) error {
	if conn, ok := p.out.(*net.TCPConn); ok {
		_ = conn.SetWriteBuffer(sendBuffer)
	}
	end := p.newData(p.ch, func(uint64) {
		select {
		case p.news <- struct{}{}:
		default:
		}
	})
	defer end()
	defer func() { p.take(-p.took) }()
	checkTicker := time.NewTicker(checkEvery)
	defer checkTicker.Stop()
	for {
		for ctx.Err() == nil {
			select {
			case <-checkTicker.C:
				if err := p.check(); err != nil {
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
		case <-checkTicker.C:
			if err := p.check(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// check returns why the sender may not continue, or nil. If a channel was replaced, the stream must end; otherwise the
// client would wait forever.
func (p *sender) check() error {
	if err := p.ch.Check(); err != nil {
		return err
	}
	return p.may()
}

// next sends one frame. It returns again = false if there is no newer frame, or if ctx has ended.
func (p *sender) next(ctx context.Context) (again bool, err error) {
	if p.ch.LastSeq() == p.r.Seq() {
		return false, nil
	}
	if ready, err := p.ready(ctx); !ready {
		return false, err
	}
	n, err := p.read()
	switch {
	case errors.Is(err, localach.ErrBusy), errors.Is(err, os.ErrDeadlineExceeded): // another program is writing a frame
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

// most returns the size of the largest frame that can be sent, bytes. Larger frames are skipped.
func (p *sender) most() int {
	if p.head == 0 {
		return maxDatagram
	}
	return maxMemory - headSize
}

func (p *sender) read() (int, error) {
	room := p.buf[min(p.head, len(p.buf)):]
	if p.newest {
		return p.r.TryNext(room)
	}
	return p.r.TryNextOldest(room)
}

// roomAtFirst is the maximum memory allocated at first for a frame that may be smaller.
const roomAtFirst = 32 << 10

// grow makes room for a frame of n bytes and its head.
func (p *sender) grow(n int) error {
	size := p.head + max(n, min(p.ch.Geometry().FrameSize, roomAtFirst))
	if !p.take(size - p.took) {
		return fmt.Errorf("no memory for frames of %d bytes: all connections together may use %d MiB", n, maxMemory>>20)
	}
	p.took, p.buf = size, make([]byte, size)
	return nil
}

var errLeft = errors.New("it closed the connection")

var errDeaf = fmt.Errorf("it has read nothing for %v", maxTimeWrite)

// send writes the frame of n bytes.
func (p *sender) send(n int) (again bool, err error) {
	if p.head > 0 {
		copy(p.buf, magic)
		binary.LittleEndian.PutUint64(p.buf[len(magic):], uint64(n))
	}
	p.last = time.Now()
	_ = p.out.SetWriteDeadline(p.last.Add(maxTimeWrite))
	_, err = p.out.Write(p.buf[:p.head+n])
	switch {
	case err == nil:
		p.count()
		return true, nil
	case p.head == 0:
		return true, nil // losing a datagram is acceptable
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, errDeaf
	}
	return false, errLeft
}

// sendBuffer is the size of the socket's send buffer, bytes. With a much smaller one, a large frame would wait for
// delayed acknowledgements of the receiver.
const sendBuffer = 128 << 10

// Bounds of the interval at which the kernel is asked whether a frame was acknowledged. The interval is one eighth of
// the time since the frame was sent.
const (
	pollLeast = 100 * time.Microsecond
	pollMost  = 5 * time.Millisecond
)

// ready waits until the next frame may be read: the previous one was acknowledged, and the period has passed. It returns
// false if ctx has ended, or with an error that explains why the client may not continue.
func (p *sender) ready(ctx context.Context) (bool, error) {
	if p.last.IsZero() {
		return true, nil
	}
	for due := p.last.Add(p.period); ; {
		wait := time.Until(due)
		if wait <= 0 {
			break
		}
		if !rest(ctx, min(wait, checkEvery)) {
			return false, nil
		}
		if wait > checkEvery {
			if err := p.check(); err != nil {
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

// unacknowledged returns how many bytes of a connection are in the kernel's send queue or in flight.
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
