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

// sender sends the frames of one channel over one connection: to a client that pulls, or to a host that ours pushes to.
type sender struct {
	ch      *localach.Channel
	r       *localach.Reader
	out     net.Conn
	head    int           // bytes before a frame: headSize, 0 over UDP
	newest  bool          // the newest frame each time, else the oldest that was not sent
	period  time.Duration // between two frames at least
	newData NewData
	may     func() error     // why it may not go on, asked each second
	take    func(n int) bool // n more bytes of memory, fewer if negative; false: there are no more
	count   func()           // a frame was sent
	news    chan struct{}    // there is a newer frame
	buf     []byte           // the head and the frame
	took    int              // of the memory
	last    time.Time        // when a frame was sent
}

// newPull makes the sender of what the client asked for.
func (c *client) newPull(ch *localach.Channel, udp net.Conn) *sender {
	s := &sender{
		ch: ch, r: ch.ReaderAfter(ch.LastSeq()), out: c.conn, head: headSize, news: make(chan struct{}, 1), newData: c.s.cfg.NewData, take: c.s.take,
		newest: c.asked.last || c.asked.periodNs > 0, period: time.Duration(c.asked.periodNs),
		may:   func() error { return c.s.mayRead(c.addr.Addr(), c.asked.channel) },
		count: func() { c.sent.Add(1); c.s.frames.Add(1) },
	}
	if udp != nil {
		s.out, s.head = udp, 0
	}
	return s
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

// look returns why it may not go on, or nil. Without an end to the stream, a client of a channel that
// was made anew would wait for ever.
func (p *sender) look() error {
	if err := p.ch.Check(); err != nil {
		return err
	}
	return p.may()
}

// next sends one frame; false: there is none.
func (p *sender) next(ctx context.Context) (again bool, err error) {
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

// roomAtFirst is the most that is taken for a frame that may be smaller.
const roomAtFirst = 32 << 10

// grow makes room for a frame of n bytes and its head.
func (p *sender) grow(n int) error {
	size := p.head + max(n, min(p.ch.Geometry().FrameSize, roomAtFirst))
	if !p.take(size - p.took) {
		return fmt.Errorf("no memory for frames of %d bytes: all connections together may have %d MiB", n, maxMemory>>20)
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
		return true, nil // a datagram more or less
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, errDeaf
	}
	return false, errLeft
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
func (p *sender) ready(ctx context.Context) (bool, error) {
	if p.last.IsZero() {
		return true, nil
	}
	for due := p.last.Add(p.period); ; {
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
