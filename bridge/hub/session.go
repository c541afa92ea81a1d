package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// streamCredit is how many bytes of a stream are under way, and wait to be read, at most.
	streamCredit = 16 << 10
	// chunk is how many bytes a message has that we write: with its envelope it fits a segment.
	chunk = 1200
)

// session is a reliable byte stream to another host, a net.Conn. Messages are numbered; what is
// wrong with one ends it.
type session struct {
	client *Client
	line   *line
	key    sessionKey

	accepted chan struct{} // the first message of the other end has come
	done     chan struct{} // the stream has ended

	out    sync.Mutex // held while a message is numbered and published
	number uint64

	mu          sync.Mutex
	wake        sync.Cond
	received    uint64 // the number that must come next
	buffer      []byte // received, not read
	allowed     uint64 // bytes that the other end takes in all
	sent        uint64
	granted     uint64 // bytes that the other end may send in all
	taken       uint64 // bytes that it has sent
	closed      bool
	err         error  // io.EOF: the other end has closed
	farewell    string // and why, if it said so
	readBefore  deadline
	writeBefore deadline
}

func newSession(c *Client, l *line, key sessionKey) *session {
	s := &session{client: c, line: l, key: key, accepted: make(chan struct{}), done: make(chan struct{}), granted: streamCredit}
	s.wake.L = &s.mu
	return s
}

// dial sends the first message. The hub says at nobody when no host of that name is there.
func (s *session) dial(nobody string) error {
	s.out.Lock()
	defer s.out.Unlock()
	s.number = 1
	return s.line.small.nc.PublishRequest(s.subject(), nobody, message{Kind: kindOpen}.append(nil))
}

// grant accepts the stream: it tells the other end how much it may send.
func (s *session) grant() error {
	if reason := s.reason(); reason != nil {
		return reason
	}
	s.mu.Lock()
	s.allowed = streamCredit
	s.mu.Unlock()
	return s.send(message{Kind: kindCredit, Credit: streamCredit})
}

func (s *session) subject() string {
	return controlOf(s.client.credentials.Host, s.key.host, s.key.id)
}

// send publishes the next message.
func (s *session) send(m message) error {
	s.out.Lock()
	defer s.out.Unlock()
	m.Number = s.number
	s.number++
	return s.line.small.nc.Publish(s.subject(), m.append(nil))
}

// take handles a message of the other end.
func (s *session) take(m message) {
	if err := s.apply(m); err != nil {
		s.refuse(fmt.Errorf("%w: %w", errBroken, err))
	}
}

func (s *session) apply(m message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.err != nil {
		return nil
	}
	if m.Number != s.received {
		return fmt.Errorf("message %d came instead of %d", m.Number, s.received)
	}
	s.received++
	switch m.Kind {
	case kindOpen:
		return errors.New("it was opened again")
	case kindData:
		s.taken += uint64(len(m.Data))
		if s.taken > s.granted {
			return fmt.Errorf("%d bytes came, %d were allowed", s.taken, s.granted)
		}
		s.buffer = append(s.buffer, m.Data...)
	case kindCredit:
		if m.Credit < s.allowed || m.Credit > s.sent+streamCredit {
			return fmt.Errorf("credit of %d after %d", m.Credit, s.allowed)
		}
		s.allowed = m.Credit
		select {
		case <-s.accepted:
		default:
			close(s.accepted)
		}
	case kindClose:
		s.farewell = m.Reason
		s.finish(io.EOF)
	}
	s.wake.Broadcast()
	return nil
}

// finish ends the stream for its users. Needs s.mu.
func (s *session) finish(reason error) {
	if s.err != nil {
		return
	}
	s.err = reason
	close(s.done)
	s.wake.Broadcast()
	s.client.sessions.remove(s)
}

// fail ends the stream without a word to the other end.
func (s *session) fail(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(reason)
}

// refuse ends the stream and tells the other end.
func (s *session) refuse(reason error) {
	s.fail(reason)
	text := reason.Error()
	if !printable(text, maxReason) {
		text = errBroken.Error()
	}
	_ = s.send(message{Kind: kindClose, Reason: text})
}

func (s *session) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// refusal is why the other end did not accept the stream.
func (s *session) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == io.EOF {
		return fmt.Errorf("host %s closed the byte stream: %s", s.key.host, cmp.Or(s.farewell, "it does not say why"))
	}
	return s.err
}

func (s *session) Read(b []byte) (int, error) {
	n, grant, err := s.read(b)
	if grant > 0 {
		_ = s.send(message{Kind: kindCredit, Credit: grant})
	}
	return n, err
}

// read also returns the credit to give, or 0.
func (s *session) read(b []byte) (n int, grant uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.closed:
			return 0, 0, net.ErrClosed
		case s.readBefore.passed():
			return 0, 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, 0, nil
		case len(s.buffer) > 0:
			n = copy(b, s.buffer)
			s.buffer = append(s.buffer[:0], s.buffer[n:]...)
			if most := s.taken - uint64(len(s.buffer)) + streamCredit; most >= s.granted+streamCredit/2 && s.err == nil {
				s.granted, grant = most, most
			}
			return n, grant, nil
		case s.err != nil:
			return 0, 0, s.err
		}
		s.wake.Wait()
	}
}

func (s *session) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := s.mayWrite(min(chunk, len(b)-done))
		if err == nil {
			if err = s.publish(b[done : done+n]); err != nil {
				s.untake(n)
			}
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// mayWrite waits for credit, and takes it.
func (s *session) mayWrite(n int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := s.writable(); err != nil {
			return 0, err
		}
		if s.sent < s.allowed {
			n = int(min(uint64(n), s.allowed-s.sent))
			s.sent += uint64(n)
			return n, nil
		}
		s.wake.Wait()
	}
}

// untake gives credit back.
func (s *session) untake(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent -= uint64(n)
}

// writable is why nothing may be written any more, or nil. Needs s.mu.
func (s *session) writable() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.err == io.EOF:
		return io.ErrClosedPipe
	case s.err != nil:
		return s.err
	case s.writeBefore.passed():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// publish sends data when there is room for it, so that frames do not wait behind a long message.
func (s *session) publish(data []byte) error {
	over := func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.writable()
	}
	if err := s.line.flow.wait(over, s.line.small.socket, len(data)); err != nil {
		return err
	}
	return s.send(message{Kind: kindData, Data: data})
}

// Close ends the stream. The other end reads what was written before. It does not wait for the hub.
func (s *session) Close() error {
	tell, err := s.shut()
	if tell {
		s.line.begin(func() { _ = s.send(message{Kind: kindClose}) })
	}
	return err
}

// leave is Close, which waits until the other end is told.
func (s *session) leave() {
	if tell, _ := s.shut(); tell {
		_ = s.send(message{Kind: kindClose})
	}
}

// shut ends the stream here. The other end has to be told, unless it knows.
func (s *session) shut() (tell bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, net.ErrClosed
	}
	s.closed = true
	tell = s.err == nil
	s.finish(net.ErrClosed)
	s.wake.Broadcast()
	s.readBefore.stop()
	s.writeBefore.stop()
	return tell, nil
}

// address is a host at the hub.
type address string

func (a address) Network() string { return "hub" }
func (a address) String() string  { return string(a) }

func (s *session) LocalAddr() net.Addr  { return address(s.client.credentials.Host) }
func (s *session) RemoteAddr() net.Addr { return address(s.key.host) }

func (s *session) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

func (s *session) SetReadDeadline(t time.Time) error { return s.set(&s.readBefore, t) }

func (s *session) SetWriteDeadline(t time.Time) error { return s.set(&s.writeBefore, t) }

func (s *session) set(d *deadline, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	d.stop()
	if d.at = t; !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.wake.Broadcast()
		})
	}
	s.wake.Broadcast()
	return nil
}

// deadline is a time that wakes who waits.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
