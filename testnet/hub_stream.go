package testnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

const (
	hubWindow   = 64 << 10 // maximum number of unread bytes of a stream
	hubPiece    = 16 << 10 // maximum number of bytes of one message
	hubArrivals = 64       // maximum number of streams that wait for Accept
)

var (
	errDeadline = os.ErrDeadlineExceeded
	// ErrHubBroken means that a stream has ended because a message was lost, doubled or forged.
	ErrHubBroken = errors.New("stream broken: a message was lost, doubled or forged")
)

// hubKind is a kind of message between the ends of a stream.
type hubKind uint8

const (
	hubOpen hubKind = iota
	hubAccept
	hubData
	hubCredit
	hubClose
	hubReset // sent by the hub: the other end does not exist
)

// hubMessage is one message between the ends of a stream.
type hubMessage struct {
	from, to, id string
	kind         hubKind
	number       uint64
	data         []byte
	credit       int
}

// HubStream is one end of a byte stream through a hub.
type HubStream struct {
	host     *HubHost
	peer, id string
	deadlines

	// Guarded by hub.mu.
	accepted   bool
	sent, got  uint64 // number of messages sent and received
	unread     bytes.Buffer
	uncredited int // bytes read for which the peer has got no credit
	credit     int // bytes that may be sent
	closed     bool
	endErr     error // why no more data arrives; nil while the stream is open
}

func (o *HubHost) newStream(peer, id string) *HubStream {
	s := &HubStream{host: o, peer: peer, id: id, deadlines: newDeadlines(), credit: hubWindow}
	o.streams[peer+" "+id] = s
	return s
}

// Dial opens a stream to a host and waits until that host accepts it.
func (o *HubHost) Dial(ctx context.Context, host string) (net.Conn, error) {
	o.hub.mu.Lock()
	if !o.connected {
		o.hub.mu.Unlock()
		return nil, o.errAway()
	}
	o.dialCount++
	s := o.newStream(host, o.name+strconv.Itoa(o.dialCount))
	s.send(hubMessage{kind: hubOpen})
	o.hub.mu.Unlock()
	if late := o.wait(ctx, nil, func() (bool, time.Time) { return s.accepted || s.endErr != nil, time.Time{} }); late != nil {
		s.Close()
		return nil, late
	}
	o.hub.mu.Lock()
	defer o.hub.mu.Unlock()
	if !s.accepted {
		return nil, fmt.Errorf("dial %s: %w", host, s.endErr)
	}
	return s, nil
}

// Accept returns the next stream that another host has opened.
func (o *HubHost) Accept(ctx context.Context) (net.Conn, error) {
	var s *HubStream
	if late := o.wait(ctx, nil, func() (bool, time.Time) {
		if len(o.arrivals) == 0 {
			return false, time.Time{}
		}
		s, o.arrivals = o.arrivals[0], o.arrivals[1:]
		s.send(hubMessage{kind: hubAccept})
		return true, time.Time{}
	}); late != nil {
		return nil, late
	}
	return s, nil
}

// send sends a message to the other end. hub.mu must be held.
func (s *HubStream) send(m hubMessage) {
	if !s.host.connected {
		return
	}
	m.from, m.to, m.id, m.number = s.host.name, s.peer, s.id, s.sent
	s.sent++
	s.host.up.send(len(m.data), func() { s.host.hub.forward(m) })
}

// forward passes a message to its receiver, or what the hub's deceit makes of it. h.mu must be held.
func (h *Hub) forward(m hubMessage) {
	for _, m := range h.messages(m) {
		to := h.hosts[m.to]
		if to == nil || !to.connected {
			if from := h.hosts[m.from]; from != nil {
				m.from, m.to, m.kind = m.to, m.from, hubReset
				from.down.send(0, func() { from.receive(m) })
			}
			continue
		}
		h.later(h.deceit.Streams, 0, func() { to.down.send(len(m.data), func() { to.receive(m) }) })
	}
}

// receive handles a message of another host. hub.mu must be held.
func (o *HubHost) receive(m hubMessage) {
	s := o.streams[m.from+" "+m.id]
	switch {
	case s == nil && m.kind == hubOpen && m.number == 0 && len(o.arrivals) < hubArrivals:
		s = o.newStream(m.from, m.id)
		s.accepted, s.got = true, 1
		o.arrivals = append(o.arrivals, s)
	case s != nil:
		s.receive(m)
	}
	o.wake()
}

func (s *HubStream) receive(m hubMessage) {
	switch {
	case s.endErr != nil:
		return
	case m.kind == hubReset:
		s.end(ErrHubAway)
		return
	case m.number != s.got, m.kind == hubData && len(m.data)+s.unread.Len()+s.uncredited > hubWindow:
		s.send(hubMessage{kind: hubClose})
		s.end(ErrHubBroken)
		return
	}
	s.got++
	switch m.kind {
	case hubAccept:
		s.accepted = true
	case hubData:
		s.unread.Write(m.data)
	case hubCredit:
		s.credit += m.credit
	case hubClose:
		s.end(io.EOF)
	}
}

// end ends the stream with the reason why. hub.mu must be held.
func (s *HubStream) end(why error) {
	if s.endErr == nil {
		s.endErr = why
		delete(s.host.streams, s.peer+" "+s.id)
		s.host.wake()
	}
}

// reset ends both ends of a stream after its host has lost its connection. hub.mu must be held.
func (s *HubStream) reset() {
	s.end(ErrHubAway)
	if other := s.host.hub.hosts[s.peer]; other != nil && other.connected {
		other.down.send(0, func() { other.receive(hubMessage{from: s.host.name, id: s.id, kind: hubReset}) })
	}
}

// Read implements net.Conn.
func (s *HubStream) Read(b []byte) (n int, err error) {
	late := s.host.wait(context.Background(), s.read, func() (bool, time.Time) {
		switch {
		case s.closed:
			err = net.ErrClosed
		case s.unread.Len() > 0:
			n, err = s.unread.Read(b)
			if s.uncredited += n; s.uncredited >= hubWindow/2 {
				s.send(hubMessage{kind: hubCredit, credit: s.uncredited})
				s.uncredited = 0
			}
		case s.endErr != nil:
			err = s.endErr
		default:
			return len(b) == 0, time.Time{}
		}
		return true, time.Time{}
	})
	if late != nil {
		return 0, late
	}
	return n, err
}

// Write implements net.Conn.
func (s *HubStream) Write(b []byte) (written int, err error) {
	for written < len(b) {
		late := s.host.wait(context.Background(), s.write, func() (bool, time.Time) {
			switch {
			case s.closed:
				err = net.ErrClosed
			case s.endErr == io.EOF:
				err = io.ErrClosedPipe
			case s.endErr != nil:
				err = s.endErr
			case s.credit > 0 && s.host.up.nextFree().IsZero():
				n := min(len(b)-written, s.credit, hubPiece)
				s.send(hubMessage{kind: hubData, data: bytes.Clone(b[written : written+n])})
				written, s.credit = written+n, s.credit-n
			case s.credit > 0:
				return false, s.host.up.nextFree()
			default:
				return false, time.Time{}
			}
			return true, time.Time{}
		})
		if late != nil {
			return written, late
		}
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Close ends the stream. The other end reads the data written before, then io.EOF.
func (s *HubStream) Close() error {
	s.host.hub.mu.Lock()
	defer s.host.hub.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.endErr == nil {
		s.send(hubMessage{kind: hubClose})
		s.end(net.ErrClosed)
	}
	s.host.wake()
	return nil
}

// hubAddr is the net.Addr of a host: its name.
type hubAddr string

func (hubAddr) Network() string  { return "hub" }
func (a hubAddr) String() string { return string(a) }

// LocalAddr returns the name of this host.
func (s *HubStream) LocalAddr() net.Addr { return hubAddr(s.host.name) }

// RemoteAddr returns the name of the other host, according to the hub.
func (s *HubStream) RemoteAddr() net.Addr { return hubAddr(s.peer) }
