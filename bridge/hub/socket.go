package hub

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a TCP connection whose unacknowledged bytes are bounded: Write blocks until they
// are few enough. What a Write has not given to the kernel is lost with the connection.
type socket struct {
	*net.TCPConn
	raw     syscall.RawConn
	flow    *flow
	small   bool         // of frames up to smallFrame, and control
	heard   atomic.Int64 // when the hub was last heard, by flow.now
	brought atomic.Int64 // when a message last came, by flow.now; 0: none yet
	closed  chan struct{}
	once    sync.Once

	inlet  inlet // of large frames; the reader's, as inside is
	inside bool  // more of a message is to come

	// guarded by flow.mu
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
	s := &socket{TCPConn: c, raw: raw, flow: f, small: small, closed: make(chan struct{}), inlet: newInlet()}
	if !small {
		s.admit()
	}
	s.heard.Store(int64(f.now()))
	f.add(s)
	return s, nil
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.TCPConn.Read(b)
	if n > 0 {
		s.heard.Store(int64(s.flow.now()))
		s.flow.unacked() // an answer acknowledges, too
		s.inlet.aside = s.flow.takes(true)
		if s.inside && s.inlet.take(n, s.flow.now(), s.flow.least()) {
			s.admit()
		}
		if !s.small && s.inlet.size <= firstWindow {
			s.acknowledge()
		}
	}
	return n, err
}

// within says whether a message has come, or a part of one, and whether more of it is to come. The reader calls it.
func (s *socket) within(came, more bool) {
	if came {
		s.brought.Store(int64(s.flow.now()))
	}
	if s.small {
		return
	}
	if s.inside && !more && s.inlet.pause(s.flow.now(), s.flow.least()) {
		s.admit()
	}
	s.inside = more
}

// admit lets the hub send as much as the inlet says. Where the kernel refuses, more waits on the path.
func (s *socket) admit() { s.option(unix.TCP_WINDOW_CLAMP, s.inlet.size) }

// acknowledge has the kernel acknowledge at once: the hub waits for it when it may send so little.
func (s *socket) acknowledge() { s.option(unix.TCP_QUICKACK, 1) }

func (s *socket) option(name, value int) {
	_ = s.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, name, value) })
}

// never is for who waits as long as the connection lasts.
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

// Close ends the connection at once. Nothing is sent any more, also not what the kernel has.
func (s *socket) Close() error {
	err := net.ErrClosed
	s.once.Do(func() {
		close(s.closed)
		_ = s.SetLinger(0)
		err = s.TCPConn.Close()
	})
	return err
}

// outstanding is how many bytes were written that are not acknowledged.
func (s *socket) outstanding() (n int, err error) {
	if e := s.raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); e != nil {
		return 0, e
	}
	return n, err
}
