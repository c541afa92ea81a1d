package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Config says who we are on the network. The zero value of the optional fields
// works.
type Config struct {
	Key  Key    // network key
	Node NodeID // identity of this node, kept over restarts
	Host string // name of this host: 1..63 bytes, no '/', no control characters
	Log  *slog.Logger

	// IdleTimeout is how long a peer may be silent before its session ends with
	// ErrSilent; 0 means 10 s, which outlives what befalls a wireless link. Nobody
	// has to wait for that: Session.Heard tells much sooner. On a path so slow that
	// three retransmissions take longer, it is that long.
	IdleTimeout time.Duration
}

// KeepAlive is how long the peer of a session leaves us without any packet, or a
// quarter of the idle timeout if that is less.
const KeepAlive = 250 * time.Millisecond

const (
	defaultIdleTimeout = 10 * time.Second
	minIdleTimeout     = 100 * time.Millisecond

	// handshakeTimeout bounds each step of getting to know a peer.
	handshakeTimeout = 5 * time.Second
	// closeTimeout bounds how long Close tries to say goodbye: a socket whose
	// network card is gone may block its writers.
	closeTimeout = 500 * time.Millisecond
	// maxArrivals is how many sessions may wait for Accept.
	maxArrivals = 32
)

// check reports every mistake at once.
func (c Config) check() error {
	var errs []error
	if c.Key.secret == nil {
		errs = append(errs, errors.New("no network key: make one with `achbridge key new`"))
	}
	if c.Node == (NodeID{}) {
		errs = append(errs, errors.New("no node id"))
	}
	if err := checkHost(c.Host); err != nil {
		errs = append(errs, err)
	}
	if c.IdleTimeout != 0 && c.IdleTimeout < minIdleTimeout {
		errs = append(errs, fmt.Errorf("idle timeout %v: at least %v", c.IdleTimeout, minIdleTimeout))
	}
	return errors.Join(errs...)
}

// Endpoint is this node's place on the network: sessions in, by Accept, and
// sessions out, by Dial, over one socket. Safe for concurrent use.
type Endpoint struct {
	addr     net.Addr
	protocol protocol
	refusals *refusals

	arrivals chan *Session
	closed   chan struct{} // closed after cause is set

	mu       sync.Mutex
	sessions map[*Session]struct{} // nil once closed
	cause    error
	wg       sync.WaitGroup // one per session; grows only under mu while sessions is not nil
}

// protocol is an Endpoint's way of making sessions. It hands those that arrive to
// Endpoint.arrived, and says by Endpoint.fail that there will be no more.
type protocol interface {
	// dial returns after the welcome. Strangers give ErrWrongKey, ourselves ErrSelf.
	dial(context.Context, net.Addr) (*Session, error)
	// close closes the socket and waits for all goroutines but those of sessions,
	// which it ends without goodbye.
	close()
}

// Listen starts an endpoint on conn, over QUIC. The endpoint then owns conn, and
// Close closes it; when Listen fails conn stays the caller's.
func Listen(conn net.PacketConn, cfg Config) (*Endpoint, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = defaultIdleTimeout
	}
	trust, err := newTrust(cfg.Key, Peer{Node: cfg.Node, Host: cfg.Host})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	e := &Endpoint{
		addr:     conn.LocalAddr(),
		refusals: newRefusals(cfg.Log, trust.network),
		arrivals: make(chan *Session, maxArrivals),
		closed:   make(chan struct{}),
		sessions: make(map[*Session]struct{}),
	}
	e.protocol, err = listenQUIC(conn, e, trust, cfg)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return e, nil
}

// LocalAddr returns the address of the socket.
func (e *Endpoint) LocalAddr() net.Addr { return e.addr }

// Accept returns the next session that a peer dialled. It blocks until there is
// one, ctx is done, or the endpoint is closed (net.ErrClosed) or has failed.
// Sessions nobody accepts pile up to a few dozen; more are turned away.
func (e *Endpoint) Accept(ctx context.Context) (*Session, error) {
	select {
	case s := <-e.arrivals:
		return s, nil
	case <-e.closed:
		return nil, fmt.Errorf("accept: %w", e.cause)
	case <-ctx.Done():
		return nil, fmt.Errorf("accept: %w", context.Cause(ctx))
	}
}

// Dial makes a session with the node at addr, whoever that is. It returns when
// both ends have proved who they are, and gives up after some 5 s without an
// answer, or when ctx is done. A node of another network gives ErrWrongKey, which
// Dial has then already logged, at most once a second for each address; our own
// node id gives ErrSelf.
func (e *Endpoint) Dial(ctx context.Context, addr net.Addr) (*Session, error) {
	s, err := e.protocol.dial(ctx, addr)
	if err != nil {
		if errors.Is(err, ErrWrongKey) {
			var r refusal
			if refused, ok := errors.AsType[*refusal](err); ok {
				r = *refused
			}
			e.refusals.report(addr, r.claim, ErrWrongKey)
		}
		return nil, fmt.Errorf("dial %v: %w", addr, err)
	}
	if !e.enter(s) {
		return nil, fmt.Errorf("dial %v: %w", addr, net.ErrClosed)
	}
	return s, nil
}

// Close ends every session, telling its peer so, and closes the socket. It waits,
// well under a second, until nothing of the endpoint runs any more.
func (e *Endpoint) Close() error {
	sessions := e.shut(net.ErrClosed)
	var goodbyes sync.WaitGroup
	for _, s := range sessions {
		goodbyes.Go(func() { s.Close("endpoint closed") })
	}
	said := make(chan struct{})
	go func() {
		goodbyes.Wait()
		close(said)
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-said:
	case <-timer.C:
	}
	e.protocol.close()
	<-said
	e.wg.Wait()
	return nil
}

// fail closes the endpoint to arrivals because its socket broke. What the caller
// still has to do is Close.
func (e *Endpoint) fail(err error) { e.shut(err) }

// shut lets no more sessions in and returns those that are.
func (e *Endpoint) shut(cause error) []*Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	var live []*Session
	for s := range e.sessions {
		live = append(live, s)
	}
	if e.cause == nil {
		e.cause = cause
		e.sessions = nil
		close(e.closed)
	}
	return live
}

// arrived takes a session that a peer dialled to whoever calls Accept.
func (e *Endpoint) arrived(s *Session) {
	if !e.enter(s) {
		return
	}
	select {
	case e.arrivals <- s:
	default:
		s.Close("too many sessions are waiting to be accepted")
	}
}

// enter writes s into the book until it ends. After Close it ends s instead.
func (e *Endpoint) enter(s *Session) bool {
	e.mu.Lock()
	open := e.sessions != nil
	if open {
		e.sessions[s] = struct{}{}
		e.wg.Go(func() { e.leave(s) })
	}
	e.mu.Unlock()
	if !open {
		s.Close("endpoint closed")
	}
	return open
}

func (e *Endpoint) leave(s *Session) {
	<-s.Done()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, s) // deleting from nil does nothing
}
