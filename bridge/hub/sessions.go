package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
)

const (
	// maxBacklog limits the streams from other hosts that wait to be accepted; maxSessions limits
	// all streams.
	maxBacklog  = 64
	maxSessions = 4096
)

// sessions has this host's byte streams.
type sessions struct {
	client  *Client
	backlog chan *session

	mu   sync.Mutex
	open map[sessionKey]*session
}

type sessionKey struct{ host, id string }

func (s *sessions) init(c *Client) {
	s.client, s.backlog, s.open = c, make(chan *session, maxBacklog), map[sessionKey]*session{}
}

// Dial opens a reliable byte stream to a host and waits until that host accepts it. It fails at
// once if this host or the other one is not connected to the hub. A lost, duplicated or reordered
// message ends the stream at both ends, and so does the end of a connection to the hub. Deadlines
// work.
func (c *Client) Dial(ctx context.Context, host string) (net.Conn, error) {
	l, err := c.connected()
	if err != nil {
		return nil, err
	}
	s := newSession(c, l, sessionKey{host, rand.Text()[:12]})
	if !c.sessions.add(s) {
		return nil, fmt.Errorf("hub: more than %d byte streams", maxSessions)
	}
	nobody := l.small.expect(func(m *nats.Msg) {
		if m != nil && statusOf(m) == statusNobody {
			s.fail(fmt.Errorf("host %s: %w", host, errNoHost))
		}
	})
	defer l.small.forget(nobody)
	if err := s.dial(nobody); err != nil {
		s.fail(err)
		return nil, err
	}
	select {
	case <-s.accepted:
		return s, nil
	case <-s.done:
		return nil, s.refusal()
	case <-ctx.Done():
		s.Close()
		return nil, ctx.Err()
	}
}

// Accept returns the next byte stream that another host has opened. Only the hub asserts the
// identity of that host: RemoteAddr is not authenticated.
func (c *Client) Accept(ctx context.Context) (net.Conn, error) {
	for {
		select {
		case s := <-c.sessions.backlog:
			if s.grant() == nil {
				return s, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take passes a message to its stream. It does not block.
func (s *sessions) take(m *nats.Msg) {
	from, _, id, err := parseControl(m.Subject)
	if err != nil {
		return
	}
	key := sessionKey{from, id}
	s.mu.Lock()
	to := s.open[key]
	s.mu.Unlock()
	got, err := parseMessage(m.Data)
	switch {
	case to != nil && err != nil:
		to.refuse(fmt.Errorf("%w: %w", errBroken, err))
	case to != nil:
		to.take(got)
	case err != nil:
	case got.Kind == kindOpen && got.Number == 0:
		s.begin(key)
	case got.Kind == kindData || got.Kind == kindCredit:
		if l, _ := s.client.current(); l != nil { // the stream has ended here, and the other end does not know
			stray := newSession(s.client, l, key)
			_ = stray.send(message{Kind: kindClose, Reason: "no such byte stream"})
		}
	}
}

// begin handles a stream that another host opens.
func (s *sessions) begin(key sessionKey) {
	l, _ := s.client.current()
	if l == nil {
		return
	}
	c := newSession(s.client, l, key)
	c.received = 1
	if !s.offer(c) {
		c.refuse(errors.New("too many byte streams wait"))
	}
}

// offer adds c to the streams that wait to be accepted. It returns false if there are too many;
// then c is never in the table.
func (s *sessions) offer(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxSessions {
		return false
	}
	select {
	case s.backlog <- c:
		s.open[c.key] = c
		return true
	default:
		return false
	}
}

// add returns false if there are too many streams.
func (s *sessions) add(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxSessions {
		return false
	}
	s.open[c.key] = c
	return true
}

func (s *sessions) remove(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[c.key] == c {
		delete(s.open, c.key)
	}
}

// endAll ends all streams. With a reason they are broken; without one they are closed as by Close.
func (s *sessions) endAll(reason error) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.open))
	s.mu.Unlock()
	for _, c := range all {
		if reason == nil {
			c.leave()
		} else {
			c.fail(reason)
		}
	}
}
