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

// Config is the identity of this node and the parameters of its Endpoint. Optional fields may be
// zero.
type Config struct {
	Key  trust.Key    // network key, or the certificate of this host
	Node trust.NodeID // identity of this node, kept across restarts; must be Key.Node if that is not zero
	Host string       // name of this host: 1 to 63 printable bytes without '/'; must be Key.Host if that is not empty
	Log  *slog.Logger

	// ResetSecret is kept across restarts and known only to this node. With it a restarted
	// node proves to the peers of former sessions that it has forgotten these. Anyone who
	// knows it can end this node's sessions, so it is not derived from the key. If it is
	// zero, peers notice a restart only by silence.
	ResetSecret [32]byte

	// SCTP is the socket for sessions over SCTP; nil means none. The endpoint owns it like
	// the socket for QUIC.
	SCTP net.PacketConn

	// idleTimeout is the silence of a peer after which its session ends with ErrSilent. 0
	// means 10 s, which is longer than usual interruptions of a wireless link. Session.ReceivedPackets
	// shows silence much sooner. On a very slow path the timeout is three retransmissions, if
	// these take longer.
	idleTimeout time.Duration
}

const (
	defaultIdleTimeout = 10 * time.Second
	minIdleTimeout     = 100 * time.Millisecond

	// maxArrivals is the maximum number of sessions that may wait for Accept.
	maxArrivals = 32
)

// check returns all errors of the configuration at once.
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

// resetSecret derives the secret for one kind of reset from ResetSecret, by HKDF-SHA256 (RFC
// 5869). The result is different on each node, even with a copied ResetSecret.
func (c Config) resetSecret(purpose string) []byte {
	b, err := hkdf.Key(sha256.New, c.ResetSecret[:], nil, "achbridge/1 "+purpose+" "+c.Node.String(), sha256.Size)
	if err != nil {
		panic(err) // 32 bytes are far below the limit of 255 hashes
	}
	return b
}

// Endpoint accepts and dials sessions for this node, over one socket for each protocol. Safe for
// concurrent use.
type Endpoint struct {
	addrs      Addrs
	quic, sctp protocol // nil without a socket
	hub        *overtls.Protocol
	unfinished struct{ quic, sctp, hub handshakes } // handshakes that peers have dialled
	refusals   *refusals
	log        *slog.Logger
	member     atomic.Pointer[trust.Member] // changed under mu

	marking *session.Marking

	knownAddrs knownAddrs

	arrivals chan *session.Session
	leaving  atomic.Bool   // new sessions are refused
	closed   chan struct{} // closed after cause is set

	mu       sync.Mutex
	sessions map[*session.Session]bool // true while a session is closed because its peer is no longer trusted; nil map once closed
	revoked  *trust.Revocations        // newest known list, nil if there is none
	cause    error
	wg       sync.WaitGroup // one per session; grows only under mu while sessions is not nil
}

// Addrs has the addresses at which a node listens. A protocol without an address is not used.
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

// IsOneMachine reports whether both addresses are UDP addresses with the same IP address.
func (a Addrs) IsOneMachine() bool {
	x, ok := a.QUIC.(*net.UDPAddr)
	y, both := a.SCTP.(*net.UDPAddr)
	return ok && both && x.IP.Equal(y.IP) && x.Zone == y.Zone
}

// String returns the address that is tried first.
func (a Addrs) String() string {
	if first := cmp.Or(a.QUIC, a.SCTP); first != nil {
		return first.String()
	}
	return "nowhere"
}

// protocol makes sessions over a socket of an Endpoint.
type protocol interface {
	dialler
	// Close closes the socket and ends the sessions without a goodbye. It waits for all
	// goroutines except those of sessions.
	Close()
}

type dialler interface {
	// Dial returns a session after the welcome. It returns trust.ErrWrongKey for peers of other
	// networks, and ErrSelf for this node itself.
	Dial(context.Context, net.Addr) (*session.Session, error)
}

// Listen starts an endpoint on conn, over QUIC, and on cfg.SCTP; one of the two may be nil. The
// endpoint then owns both sockets, and Close closes them. If Listen returns an error, the
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
		marking:  session.NewMarking(cfg.Log),
		arrivals: make(chan *session.Session, maxArrivals),
		closed:   make(chan struct{}),
		sessions: make(map[*session.Session]bool),
	}
	e.member.Store(member)
	e.refusals = newRefusals(cfg.Log, func() string { return e.trusted().Network() })
	e.unfinished.quic = handshakes{isKnown: e.knownAddrs.has, ousted: e.refusals.atLimit, calm: quic.RetryThreshold}
	e.unfinished.sctp = handshakes{isKnown: e.knownAddrs.has, ousted: e.refusals.atLimit}
	e.unfinished.hub = handshakes{isKnown: func(netip.Addr) bool { return false }, ousted: e.refusals.atLimit}
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

// settings returns the Settings of a protocol of e. The protocol derives its stateless resets
// from the secret for resetPurpose.
func (e *Endpoint) settings(cfg Config, unfinished *handshakes, resetPurpose string) session.Settings {
	return session.Settings{
		Inbox: inbox{e}, Refusals: e.refusals, Handshakes: unfinished, Member: e.trusted, Leaving: e.leaving.Load,
		IdleTimeout: cfg.idleTimeout, ResetSecret: cfg.resetSecret(resetPurpose), Marking: e.marking, Log: cfg.Log,
	}
}

// LocalAddrs returns the addresses of the sockets.
func (e *Endpoint) LocalAddrs() Addrs { return e.addrs }

// MarkingErr returns the error with which the kernel refused to mark packets with a DSCP, after which all packets are sent without
// marks. It returns nil if the kernel has refused none.
func (e *Endpoint) MarkingErr() error { return e.marking.Err() }

// Accept returns the next session that a peer dialled. It blocks until there is one, ctx is
// done, or the endpoint is closed (net.ErrClosed) or has failed. If 32 sessions wait for Accept,
// the endpoint refuses more.
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

// Leave refuses new sessions from now on, before they are established for the dialler. Existing
// sessions continue until Close. It does not block.
func (e *Endpoint) Leave() { e.leaving.Store(true) }

// Close closes every session with a goodbye to the peer, and closes the sockets. It waits, much
// less than a second, until no goroutine of the endpoint runs any more.
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

// inbox implements session.Inbox for the protocols of an Endpoint.
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

// Arrived passes a session that a peer dialled to Accept.
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
