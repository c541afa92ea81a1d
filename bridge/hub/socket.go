package hub

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a TCP connection with a bound on unacknowledged bytes: Write blocks until there is
// room. Bytes that Write has not passed to the kernel are lost with the connection.
type socket struct {
	*net.TCPConn
	raw            syscall.RawConn
	flow           *flow
	small          bool         // connection of control messages and frames up to smallFrame
	lastReceivedAt atomic.Int64 // when data last arrived or was acknowledged, by flow.now
	receivedAt     atomic.Int64 // when a message last arrived, by flow.now; 0 means never
	closed         chan struct{}
	once           sync.Once

	receiveWindow receiveWindow // limits the large frames in transit; belongs to the reading goroutine, like inside
	inside        bool          // the rest of a message is still to come

	// The fields below are guarded by flow.mu.
	wrote, acked int64
	mark         mark
}

// mark is a write whose acknowledgement ends a round.
type mark struct {
	upTo      int64
	at        time.Duration
	delivered int64
	bytes     int
}

func newSocket(c *net.TCPConn, f *flow, small bool) (*socket, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{TCPConn: c, raw: raw, flow: f, small: small, closed: make(chan struct{}), receiveWindow: newReceiveWindow()}
	if !small {
		s.admit()
	}
	s.lastReceivedAt.Store(int64(f.now()))
	f.add(s)
	return s, nil
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.TCPConn.Read(b)
	if n > 0 {
		s.lastReceivedAt.Store(int64(s.flow.now()))
		s.flow.unacked() // the kernel may have received an acknowledgement with the data
		s.receiveWindow.hasSmall = s.flow.takes(true)
		if s.inside && s.receiveWindow.take(n, s.flow.now(), s.flow.least()) {
			s.admit()
		}
		if !s.small && s.receiveWindow.size <= firstWindow {
			s.acknowledge()
		}
	}
	return n, err
}

// within is the callback of guard. Its arguments report whether the last read had data of a message,
// and whether the rest of that message is still to come. The reading goroutine calls it.
func (s *socket) within(came, more bool) {
	if came {
		s.receivedAt.Store(int64(s.flow.now()))
	}
	if s.small {
		return
	}
	if s.inside && !more && s.receiveWindow.pause(s.flow.now(), s.flow.least()) {
		s.admit()
	}
	s.inside = more
}

// admit sets the receive window to its limit for large frames. If the kernel refuses, more data waits on
// the path.
func (s *socket) admit() { s.option(unix.TCP_WINDOW_CLAMP, s.receiveWindow.size) }

// acknowledge makes the kernel acknowledge at once, since with a small window the hub waits for
// that.
func (s *socket) acknowledge() { s.option(unix.TCP_QUICKACK, 1) }

func (s *socket) option(name, value int) {
	_ = s.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, name, value) })
}

// never is the argument of flow.wait for callers that wait as long as the connection lasts.
func never() error { return nil }

func (s *socket) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		if err := s.flow.wait(never, s, len(b)-done); err != nil {
			return done, err
		}
		piece := b[done:min(len(b), done+s.flow.piece(s))]
		n, err := s.TCPConn.Write(piece)
		s.flow.written(s, n)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Close ends the connection at once. Data that the kernel has not sent is dropped.
func (s *socket) Close() error {
	err := net.ErrClosed
	s.once.Do(func() {
		close(s.closed)
		_ = s.SetLinger(0)
		err = s.TCPConn.Close()
	})
	return err
}

// outstanding returns the number of written bytes that are not acknowledged.
func (s *socket) outstanding() (n int, err error) {
	if e := s.raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); e != nil {
		return 0, e
	}
	return n, err
}
