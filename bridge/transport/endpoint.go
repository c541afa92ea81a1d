package transport

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"achbridge/bridge/transport/overtls"
	"achbridge/bridge/transport/quic"
	"achbridge/bridge/transport/sctp"
	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// Config says who we are on the network. The zero value of the optional fields
// works.
type Config struct {
	Key  trust.Key    // network key, or the certificate of this host
	Node trust.NodeID // identity of this node, kept over restarts; Key.Node if that is not zero
	Host string       // name of this host: 1..63 bytes that can be printed, no '/'; that of Key if it has one
	Log  *slog.Logger

	// ResetSecret is kept over restarts and known to this node alone. With it a restarted
	// node proves to the peers of its former sessions that it has forgotten these. Whoever
	// has it can end this node's sessions, so it is not derived from the key. If it is zero,
	// peers notice a restart only by silence.
	ResetSecret [32]byte

	// SCTP is the socket for sessions over SCTP; nil means none. The endpoint owns
	// it as it owns the other.
	SCTP net.PacketConn

	// idleTimeout is how long a peer may be silent before its session ends with
	// ErrSilent; 0 means 10 s, which is longer than usual gaps of a wireless link.
	// Session.Heard shows silence much sooner. On a very slow path the time-out is three
	// retransmissions, if these take longer.
	idleTimeout time.Duration
}

const (
	defaultIdleTimeout = 10 * time.Second
	minIdleTimeout     = 100 * time.Millisecond

	// maxArrivals is how many sessions may wait for Accept.
	maxArrivals = 32
)

// check reports every mistake at once.
func (c Config) check() error {
	var errs []error
	if c.Key.IsZero() {
		errs = append(errs, errors.New("no network key: make one with `achbridge key new`"))
	}
	if c.Node == (trust.NodeID{}) {
		errs = append(errs, errors.New("no node id"))
	}
	errs = append(errs, c.Key.Fits(trust.Peer{Node: c.Node, Host: c.Host}))
	if err := trust.CheckHost(c.Host); err != nil {
		errs = append(errs, err)
	}
	if c.idleTimeout != 0 && c.idleTimeout < minIdleTimeout {
		errs = append(errs, fmt.Errorf("idle timeout %v: at least %v", c.idleTimeout, minIdleTimeout))
	}
	return errors.Join(errs...)
}

// resetSecret derives the secret of one kind of reset from ResetSecret, by HKDF-SHA256
// (RFC 5869). It differs from node to node, even if their secrets are copies.
func (c Config) resetSecret(purpose string) []byte {
	b, err := hkdf.Key(sha256.New, c.ResetSecret[:], nil, "achbridge/1 "+purpose+" "+c.Node.String(), sha256.Size)
	if err != nil {
		panic(err) // 32 bytes are far below the limit of 255 hashes
	}
	return b
}

// Endpoint is this node's place on the network: sessions in, by Accept, and
// sessions out, by Dial, over one socket for each protocol. Safe for concurrent use.
type Endpoint struct {
	addrs      Addrs
	quic, sctp protocol // nil without a socket
	hub        *overtls.Protocol
	unfinished struct{ quic, sctp, hub handshakes } // by peers that dialled us
	refusals   *refusals
	log        *slog.Logger
	member     atomic.Pointer[trust.Member] // stored under mu

	knownAddrs knownAddrs

	arrivals chan *session.Session
	leaving  atomic.Bool   // new sessions are refused
	closed   chan struct{} // closed after cause is set

	mu       sync.Mutex
	sessions map[*session.Session]bool // whether it ends because its peer is no longer trusted; the map is nil once closed
	revoked  *trust.Revocations        // the newest that is known; nil without any
	cause    error
	wg       sync.WaitGroup // one per session; grows only under mu while sessions is not nil
}

// Addrs is where a node listens, by protocol. A protocol without an address is not
// used.
type Addrs struct{ QUIC, SCTP net.Addr }

// Equal reports whether a and b have the same two addresses.
func (a Addrs) Equal(b Addrs) bool {
	return session.SameAddr(a.QUIC, b.QUIC) && session.SameAddr(a.SCTP, b.SCTP)
}

// Overlaps reports whether a and b have an address in common.
func (a Addrs) Overlaps(b Addrs) bool {
	return b.QUIC != nil && a.include(b.QUIC) || b.SCTP != nil && a.include(b.SCTP)
}

func (a Addrs) include(addr net.Addr) bool {
	return session.SameAddr(a.QUIC, addr) || session.SameAddr(a.SCTP, addr)
}

// IsOneMachine reports whether both addresses are UDP's and have one IP address.
func (a Addrs) IsOneMachine() bool {
	x, ok := a.QUIC.(*net.UDPAddr)
	y, both := a.SCTP.(*net.UDPAddr)
	return ok && both && x.IP.Equal(y.IP) && x.Zone == y.Zone
}

// String returns the one that is tried first.
func (a Addrs) String() string {
	if first := cmp.Or(a.QUIC, a.SCTP); first != nil {
		return first.String()
	}
	return "nowhere"
}

// protocol is an Endpoint's way of making sessions over a socket.
type protocol interface {
	dialler
	// Close closes the socket and ends the sessions without a goodbye. It waits for all
	// goroutines but those of sessions.
	Close()
}

type dialler interface {
	// Dial returns after the welcome. Unknown peers give trust.ErrWrongKey, ourselves ErrSelf.
	Dial(context.Context, net.Addr) (*session.Session, error)
}

// Listen starts an endpoint on conn, over QUIC, and on cfg.SCTP; one of the two may be
// nil. From then on the endpoint owns both and Close closes them. When Listen fails, the
// caller still owns them.
func Listen(conn net.PacketConn, cfg Config) (*Endpoint, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if conn == nil && cfg.SCTP == nil {
		return nil, errors.New("listen: no socket")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.idleTimeout == 0 {
		cfg.idleTimeout = defaultIdleTimeout
	}
	if cfg.ResetSecret == ([32]byte{}) {
		rand.Read(cfg.ResetSecret[:]) // never fails
	}
	member, err := trust.NewMember(cfg.Key, trust.Peer{Node: cfg.Node, Host: cfg.Host}, nil)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	e := &Endpoint{
		log:      cfg.Log,
		arrivals: make(chan *session.Session, maxArrivals),
		closed:   make(chan struct{}),
		sessions: make(map[*session.Session]bool),
	}
	e.member.Store(member)
	e.refusals = newRefusals(cfg.Log, func() string { return e.trusted().Network() })
	e.unfinished.quic = handshakes{known: e.knownAddrs.has, ousted: e.refusals.crowded, calm: quic.RetryThreshold}
	e.unfinished.sctp = handshakes{known: e.knownAddrs.has, ousted: e.refusals.crowded}
	e.unfinished.hub = handshakes{known: func(netip.Addr) bool { return false }, ousted: e.refusals.crowded}
	e.hub = overtls.New(e.settings(cfg, &e.unfinished.hub, ""))
	if conn != nil {
		e.addrs.QUIC = conn.LocalAddr()
		e.quic, err = quic.Listen(conn, e.settings(cfg, &e.unfinished.quic, "stateless reset"), e.knownAddrs.live)
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	if cfg.SCTP != nil {
		e.addrs.SCTP = cfg.SCTP.LocalAddr()
		e.sctp = sctp.Listen(cfg.SCTP, e.settings(cfg, &e.unfinished.sctp, "sctp reset"))
	}
	return e, nil
}

// settings returns what a protocol needs of e. The protocol derives its resets from the secret
// for resetPurpose.
func (e *Endpoint) settings(cfg Config, unfinished *handshakes, resetPurpose string) session.Settings {
	return session.Settings{
		Inbox: inbox{e}, Refusals: e.refusals, Handshakes: unfinished, Member: e.trusted, Leaving: e.leaving.Load,
		IdleTimeout: cfg.idleTimeout, ResetSecret: cfg.resetSecret(resetPurpose), Log: cfg.Log,
	}
}

// LocalAddrs returns the addresses of the sockets.
func (e *Endpoint) LocalAddrs() Addrs { return e.addrs }

// Accept returns the next session that a peer dialled. It blocks until there is one, ctx
// is done, or the endpoint is closed (net.ErrClosed) or has failed. A few dozen sessions
// may wait for Accept; the endpoint turns away more.
func (e *Endpoint) Accept(ctx context.Context) (*session.Session, error) {
	select {
	case s := <-e.arrivals:
		return s, nil
	case <-e.closed:
		return nil, fmt.Errorf("accept: %w", e.cause)
	case <-ctx.Done():
		return nil, fmt.Errorf("accept: %w", context.Cause(ctx))
	}
}

// Leave refuses new sessions from now on, before they are complete for the dialler. Existing
// sessions go on until Close. It does not block.
func (e *Endpoint) Leave() { e.leaving.Store(true) }

// Close ends every session, tells the peers, and closes the sockets. It waits, well
// under a second, until nothing of the endpoint runs any more.
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
	session.Wait(said, session.CloseTimeout)
	for _, p := range []protocol{e.quic, e.sctp} {
		if p != nil {
			p.Close()
		}
	}
	e.hub.Close()
	<-said
	e.wg.Wait()
	return nil
}

// inbox is the Endpoint as its protocols see it.
type inbox struct{ *Endpoint }

// Failed refuses new sessions. The caller of Listen still has to call Close.
func (e inbox) Failed(err error) { e.shut(err) }

// shut refuses new sessions and returns the existing ones.
func (e *Endpoint) shut(cause error) []*session.Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	var live []*session.Session
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

// Arrived hands a session that a peer dialled to Accept.
func (e inbox) Arrived(s *session.Session) {
	if e.leaving.Load() {
		s.Close(session.LeavingReason)
		return
	}
	if err := e.enter(s); err != nil {
		return
	}
	select {
	case e.arrivals <- s:
	default:
		s.Close("too many sessions are waiting to be accepted")
	}
}

// enter keeps s in the table of sessions until it ends. After Close, or if the peer is no
// longer trusted, it ends s instead and returns why.
func (e *Endpoint) enter(s *session.Session) error {
	e.mu.Lock()
	var err error
	reason := "endpoint closed"
	if e.sessions == nil {
		err = net.ErrClosed
	} else if err = e.trusted().Stands(s.Proof()); err != nil {
		reason = noLonger(err)
	} else {
		e.sessions[s] = false
		at := session.AddrOf(s.RemoteAddr())
		e.knownAddrs.begins(at)
		e.wg.Go(func() { e.leave(s, at) })
	}
	e.mu.Unlock()
	if err != nil {
		s.Close(reason)
	}
	return err
}

func (e *Endpoint) leave(s *session.Session, at netip.Addr) {
	<-s.Done()
	e.knownAddrs.ends(at, session.AddrOf(s.RemoteAddr()))
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, s) // deleting from nil does nothing
}
