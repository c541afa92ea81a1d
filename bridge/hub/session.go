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
	// streamCredit is the maximum number of a stream's bytes that are in transit or wait to be
	// read.
	streamCredit = 16 << 10
	// chunk is the number of stream bytes in a message that Write sends. The message then fits a
	// TCP segment.
	chunk = 1200
)

// session is a reliable byte stream to another host, a net.Conn. Messages are numbered; an invalid
// one ends the stream.
type session struct {
	client *Client
	pair   *connPair
	key    sessionKey

	accepted chan struct{} // closed when the other end's first message has arrived
	done     chan struct{} // closed when the stream has ended

	out    sync.Mutex // held while a message is numbered and published
	number uint64

	mu            sync.Mutex
	wake          sync.Cond
	received      uint64 // number of the next message to receive
	buffer        []byte // received bytes that were not read
	allowed       uint64 // total number of bytes that the other end accepts
	sent          uint64
	granted       uint64 // total number of bytes that the other end may send
	peerSentBytes uint64 // total number of bytes that the other end has sent
	closed        bool
	err           error  // io.EOF means that the other end has closed
	farewell      string // the other end's reason to close, "" without one
	readBefore    deadline
	writeBefore   deadline
}

func newSession(c *Client, l *connPair, key sessionKey) *session {
	s := &session{client: c, pair: l, key: key, accepted: make(chan struct{}), done: make(chan struct{}), granted: streamCredit}
	s.wake.L = &s.mu
	return s
}

// dial sends the first message. The hub answers to the subject nobody if no host of that name is
// connected.
func (s *session) dial(nobody string) error {
	s.out.Lock()
	defer s.out.Unlock()
	s.number = 1
	return s.pair.small.nc.PublishRequest(s.subject(), nobody, message{Kind: kindOpen}.append(nil))
}

// grant accepts the stream by sending the other end its first credit.
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
	return s.pair.small.nc.Publish(s.subject(), m.append(nil))
}

// take handles a message from the other end.
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
		s.peerSentBytes += uint64(len(m.Data))
		if s.peerSentBytes > s.granted {
			return fmt.Errorf("%d bytes came, %d were allowed", s.peerSentBytes, s.granted)
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

// finish ends the stream for its users. s.mu must be held.
func (s *session) finish(reason error) {
	if s.err != nil {
		return
	}
	s.err = reason
	close(s.done)
	s.wake.Broadcast()
	s.client.sessions.remove(s)
}

// fail ends the stream without informing the other end.
func (s *session) fail(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(reason)
}

// refuse ends the stream and sends the other end the reason.
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

// refusal returns the reason why the other end did not accept the stream.
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

// read also returns the credit to send to the other end, or 0.
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
			if most := s.peerSentBytes - uint64(len(s.buffer)) + streamCredit; most >= s.granted+streamCredit/2 && s.err == nil {
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

// mayWrite waits for credit for up to n bytes, and takes it.
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

// untake returns unused credit.
func (s *session) untake(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent -= uint64(n)
}

// writable returns the reason why writing fails, or nil. s.mu must be held.
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

// publish sends data when the flow has room for it, so that frames do not wait behind a long
// message.
func (s *session) publish(data []byte) error {
	over := func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.writable()
	}
	if err := s.pair.flow.wait(over, s.pair.small.socket, len(data)); err != nil {
		return err
	}
	return s.send(message{Kind: kindData, Data: data})
}

// Close ends the stream. The other end can still read the bytes that were written before. Close
// does not wait for the hub.
func (s *session) Close() error {
	mustNotify, err := s.shut()
	if mustNotify {
		s.pair.begin(func() { _ = s.send(message{Kind: kindClose}) })
	}
	return err
}

// leave is like Close, but returns after the other end was informed.
func (s *session) leave() {
	if mustNotify, _ := s.shut(); mustNotify {
		_ = s.send(message{Kind: kindClose})
	}
}

// shut ends the stream at this end. It also returns whether the other end must be informed.
func (s *session) shut() (mustNotify bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, net.ErrClosed
	}
	s.closed = true
	mustNotify = s.err == nil
	s.finish(net.ErrClosed)
	s.wake.Broadcast()
	s.readBefore.stop()
	s.writeBefore.stop()
	return mustNotify, nil
}

// address is the name of a host at the hub.
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

// deadline is a point in time whose timer wakes blocked calls.
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
