package quic

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/quic-go/quic-go"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// guard limits the resources of unknown peers: each unfinished handshake needs a few dozen
// kilobytes and two goroutines for up to 10 s. It also logs how handshakes fail, since quic-go
// does not report connections that it never returns from Accept.
//
// quic-go returns a connection from Accept when it has read the ClientHello. From then on it
// can be closed. Connections without a complete ClientHello can be closed only together, by
// closing the listener, which closes no others. The guard does so, and starts a new listener,
// when there are too many of them, or when one is too old and many are pending. A peer that has
// sent one of the two packets of its ClientHello at that moment gets an error, and dials again.
type guard struct {
	cfg  session.Settings
	full chan struct{} // requests a new listener
}

const (
	// RetryThreshold is the number of pending handshakes from which new peers must first prove
	// their address (QUIC Retry). A peer with a forged address cannot.
	RetryThreshold = 8

	tooManyHandshakes = "too many handshakes: dial again"
)

func newGuard(cfg session.Settings) *guard {
	return &guard{cfg: cfg, full: make(chan struct{}, 1)}
}

// attempt is one incoming connection until the welcome.
type attempt struct {
	addr  net.Addr
	place session.Handshake

	mu         sync.Mutex
	conn       *quic.Conn  // nil until Accept has returned it
	isDropped  bool        // the guard drops it to make room for others
	isAccepted bool        // the peer's certificate was accepted
	claim      trust.Claim // the peer's claim, from its ClientHello
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt { return ctx.Value(attemptKey{}).(*attempt) }

// isFull implements quic.Transport.VerifySourceAddress: it reports whether peers must prove
// their address.
func (g *guard) isFull(net.Addr) bool { return g.cfg.Handshakes.AtLeast(RetryThreshold) }

// admit implements quic.Transport.ConnContext. It counts the attempt until the connection ends
// or becomes a session.
func (g *guard) admit(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	a := &attempt{addr: info.RemoteAddr}
	var proved netip.Addr
	if info.AddrVerified {
		proved = session.AddrOf(info.RemoteAddr)
	}
	a.place = g.cfg.Handshakes.Enter(proved, func() { g.oust(a) })
	context.AfterFunc(ctx, func() {
		a.place.Leave()
		g.ended(a, context.Cause(ctx))
	})
	return context.WithValue(ctx, attemptKey{}, a), nil
}

// oust starts to close the connection of an attempt. It does not wait.
func (g *guard) oust(a *attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isDropped = true
	if a.conn != nil {
		go a.conn.CloseWithError(codeUnwelcome, tooManyHandshakes)
		return
	}
	select {
	case g.full <- struct{}{}:
	default:
	}
}

// handedOut records the connection of an attempt, and reports whether it may continue.
func (a *attempt) handedOut(conn *quic.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conn = conn
	return !a.isDropped
}

// hello implements tls.Config.GetConfigForClient. It does not change the configuration, but
// records the network that the dialler expects here.
func (g *guard) hello(h *tls.ClientHelloInfo) (*tls.Config, error) {
	a := attemptOf(h.Context())
	a.place.Reached(session.AtHandshake)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claim.Network = session.NamedNetwork(h.ServerName)
	return nil, nil
}

// authenticated marks an attempt whose handshake is complete.
func (a *attempt) authenticated() {
	a.place.Reached(session.AtWelcome)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isAccepted = true
}

// ended logs why an attempt failed, unless the peer is a member or the cause is normal: silence,
// a close, or this node is closing.
func (g *guard) ended(a *attempt, cause error) {
	a.mu.Lock()
	known, claim := a.isAccepted, a.claim
	a.mu.Unlock()
	if known {
		return
	}
	if refused, ok := errors.AsType[*trust.Refusal](cause); ok { // we refused it
		g.cfg.Refusals.Report(a.addr, refused.Claim, refused.Err)
		return
	}
	cause = causeOf(cause)
	_, closed := errors.AsType[*session.CloseError](cause) // only an authenticated peer can send this
	local, ok := errors.AsType[*quic.TransportError](cause)
	leaving := ok && !local.Remote && local.ErrorCode == quic.ConnectionRefused // this node accepts no more connections
	if closed || leaving || errors.Is(cause, session.ErrSelf) || errors.Is(cause, session.ErrSilent) || errors.Is(cause, quic.ErrTransportClosed) {
		return
	}
	if errors.Is(cause, trust.ErrWrongKey) && claim.Network == g.cfg.Member().Network() {
		// The peer requested our network but refused our certificate.
		cause = errors.New("peer refused our certificate")
	}
	g.cfg.Refusals.Report(a.addr, claim, cause)
}
