package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"achbridge/bridge/transport/overtls"
	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// headStart is the time after which Dial tries SCTP too if QUIC has no session yet.
const headStart = 250 * time.Millisecond

// Dial makes a session with any node at the addresses to. With two addresses it tries QUIC
// first, and also SCTP if QUIC has failed or has no session after 250 ms. It keeps the session
// that is established first. Dial returns when both ends have proved their identity. It gives
// up after about 5 s without an answer, or when ctx is done. An expired deadline is ErrSilent
// too. For a node of another network Dial returns trust.ErrWrongKey, and logs that at most
// once a second for each address. For our own node it returns ErrSelf.
func (e *Endpoint) Dial(ctx context.Context, to Addrs) (*session.Session, error) {
	var ways []way
	if e.quic != nil && to.QUIC != nil {
		ways = append(ways, way{e.quic, to.QUIC})
	}
	if e.sctp != nil && to.SCTP != nil {
		ways = append(ways, way{e.sctp, to.SCTP})
	}
	switch len(ways) {
	case 0:
		return nil, errors.New("dial: the peer has no address for any transport of this node")
	case 1:
		return e.dialOne(ctx, ways[0])
	}
	return e.dialBoth(ctx, ways[0], ways[1])
}

// way is a protocol and an address by which a node can be reached.
type way struct {
	over dialler
	addr net.Addr
}

func (e *Endpoint) dialOne(ctx context.Context, w way) (*session.Session, error) {
	s, err := w.over.Dial(ctx, w.addr)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, session.ErrSilent) {
		err = fmt.Errorf("%w%.0w", session.ErrSilent, err)
	}
	if err != nil {
		if errors.Is(err, trust.ErrWrongKey) {
			var claim trust.Claim
			if refused, ok := errors.AsType[*trust.Refusal](err); ok {
				claim = refused.Claim
			}
			e.refusals.Report(w.addr, claim, trust.ErrWrongKey)
		}
		return nil, fmt.Errorf("dial %v: %w", w.addr, err)
	}
	if err := e.enter(s); err != nil {
		return nil, fmt.Errorf("dial %v: %w", w.addr, err)
	}
	return s, nil
}

// dialBoth returns the session that is established first. It cancels the other attempt and
// waits for its end.
func (e *Endpoint) dialBoth(ctx context.Context, first, second way) (*session.Session, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		way int
		s   *session.Session
		err error
	}
	results := make(chan result, 2)
	failed := make(chan struct{})
	go func() {
		s, err := e.dialOne(ctx, first)
		if err != nil {
			close(failed)
		}
		results <- result{0, s, err}
	}()
	go func() {
		select {
		case <-time.After(headStart):
		case <-failed:
		case <-ctx.Done():
			results <- result{1, nil, context.Cause(ctx)}
			return
		}
		s, err := e.dialOne(ctx, second)
		results <- result{1, s, err}
	}()
	var kept *session.Session
	var errs [2]error
	for range 2 {
		r := <-results
		switch {
		case r.err != nil:
			errs[r.way] = r.err
		case kept != nil:
			r.s.Close("the other transport was there first")
		default:
			kept = r.s
			cancel()
		}
	}
	if kept != nil {
		return kept, nil
	}
	return nil, fmt.Errorf("%w; %w", errs[0], errs[1]) // a single line, for tables
}

// DialOver makes a session with the node at the other end of conn, which must call AcceptOver.
// Its errors are those of Dial. The endpoint owns conn, a reliable byte stream with deadlines,
// and closes it. Data written to conn before its Close must arrive unless the path is lost,
// since the last record is the reason why the session ends.
//
// The session carries only the control stream. SendDatagram and OpenStream fail, MaxDatagram
// and Window are 0, and ReceiveDatagram and AcceptStream wait for the session's end. RTT is
// measured every 10 s, and after each second in which this end writes nothing. So Heard also
// grows on a quiet session.
func (e *Endpoint) DialOver(ctx context.Context, conn net.Conn) (*session.Session, error) {
	return e.dialOne(ctx, way{hubWay{e.hub, conn}, conn.RemoteAddr()})
}

// AcceptOver begins a session with the node that calls DialOver at the other end of conn. It
// does not wait; Accept returns the session. The endpoint owns conn, as with DialOver. The
// number of unfinished handshakes is limited. If there are too many, the oldest one of the
// remote address (Conn.RemoteAddr) with the most handshakes is dropped.
func (e *Endpoint) AcceptOver(conn net.Conn) { e.hub.Accept(conn) }

// hubWay dials over conn. It ignores the address.
type hubWay struct {
	hub  *overtls.Protocol
	conn net.Conn
}

func (w hubWay) Dial(ctx context.Context, _ net.Addr) (*session.Session, error) {
	return w.hub.Dial(ctx, w.conn)
}
