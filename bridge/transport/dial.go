package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"achbridge/bridge/trust"
)

// headStart is how long QUIC may take for a session before SCTP is tried as well.
const headStart = 250 * time.Millisecond

// Dial makes a session with the node at to, whichever that is. With two addresses it tries
// QUIC first, and SCTP too when QUIC has failed or has no session after 250 ms. It keeps the
// session that is complete first. Dial returns when both ends have proved their identity.
// It gives up after some 5 s without an answer, or when ctx is done; an expired deadline
// is ErrSilent too. A node of another network gives trust.ErrWrongKey; Dial logs that
// itself, at most once a second for each address. Our own node id is an error as well.
func (e *Endpoint) Dial(ctx context.Context, to Addrs) (*Session, error) {
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

// way is how to reach a node.
type way struct {
	over protocol
	addr net.Addr
}

func (e *Endpoint) dialOne(ctx context.Context, w way) (*Session, error) {
	s, err := w.over.dial(ctx, w.addr)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrSilent) {
		err = fmt.Errorf("%w%.0w", ErrSilent, err)
	}
	if err != nil {
		if errors.Is(err, trust.ErrWrongKey) {
			var claim trust.Claim
			if refused, ok := errors.AsType[*trust.Refusal](err); ok {
				claim = refused.Claim
			}
			e.refusals.report(w.addr, claim, trust.ErrWrongKey)
		}
		return nil, fmt.Errorf("dial %v: %w", w.addr, err)
	}
	if err := e.enter(s); err != nil {
		return nil, fmt.Errorf("dial %v: %w", w.addr, err)
	}
	return s, nil
}

// dialBoth returns the session that is complete first. It cancels the other attempt and
// waits for its end.
func (e *Endpoint) dialBoth(ctx context.Context, first, second way) (*Session, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		way int
		s   *Session
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
		timer := time.NewTimer(headStart)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-failed:
		case <-ctx.Done():
			results <- result{1, nil, context.Cause(ctx)}
			return
		}
		s, err := e.dialOne(ctx, second)
		results <- result{1, s, err}
	}()
	var kept *Session
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
	return nil, fmt.Errorf("%w; %w", errs[0], errs[1]) // one line: it stands in tables
}
