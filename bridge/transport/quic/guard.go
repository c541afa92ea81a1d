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

// guard limits what unknown peers cost: each unfinished handshake holds a few dozen
// kilobytes and two goroutines for up to 10 s. It also learns how each ends, for the log,
// since quic-go does not report connections that it never hands out.
//
// quic-go hands out a connection when it has read the ClientHello; from then on it can be
// closed. Connections without a whole ClientHello can be ended only together, by closing the
// listener; that ends no others. The guard does so, and begins another listener, when there
// are too many of them, or when one is too old while there is a crowd. A peer that is between
// the two packets of its ClientHello at that moment is told, and dials again.
type guard struct {
	cfg  session.Settings
	full chan struct{} // asks for another listener
}

const (
	// RetryThreshold is how many handshakes may be pending before new ones must first prove their
	// address (QUIC Retry), which a forged address cannot.
	RetryThreshold = 8

	crowdedOut = "too many handshakes: dial again"
)

func newGuard(cfg session.Settings) *guard {
	return &guard{cfg: cfg, full: make(chan struct{}, 1)}
}

// attempt is one incoming connection until the welcome.
type attempt struct {
	addr  net.Addr
	place session.Handshake

	mu    sync.Mutex
	conn  *quic.Conn  // nil until it is handed out
	ended bool        // the guard ends it to make room
	known bool        // its certificate was accepted
	claim trust.Claim // from the greeting
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt { return ctx.Value(attemptKey{}).(*attempt) }

// crowded is quic.Transport.VerifySourceAddress.
func (g *guard) crowded(net.Addr) bool { return g.cfg.Handshakes.AtLeast(RetryThreshold) }

// admit is quic.Transport.ConnContext: it counts the attempt in, and out again
// when the connection ends or becomes a session.
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

// oust begins to end an attempt; it does not wait.
func (g *guard) oust(a *attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.conn != nil {
		go a.conn.CloseWithError(codeUnwelcome, crowdedOut)
		return
	}
	select {
	case g.full <- struct{}{}:
	default:
	}
}

// handedOut notes the connection of an attempt, and reports whether it may go on.
func (a *attempt) handedOut(conn *quic.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conn = conn
	return !a.ended
}

// hello is tls.Config.GetConfigForClient. It changes nothing, but notes which
// network the dialler expects here.
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
	a.known = true
}

// ended logs how an attempt ended, unless it was a member's or failed without a fault:
// an answer was lost, or this node was closing.
func (g *guard) ended(a *attempt, cause error) {
	a.mu.Lock()
	known, claim := a.known, a.claim
	a.mu.Unlock()
	if known {
		return
	}
	if refused, ok := errors.AsType[*trust.Refusal](cause); ok { // we refused it
		g.cfg.Refusals.Report(a.addr, refused.Claim, refused.Err)
		return
	}
	cause = causeOf(cause)
	_, closed := errors.AsType[*session.CloseError](cause) // speaks only who has been let in
	local, ok := errors.AsType[*quic.TransportError](cause)
	leaving := ok && !local.Remote && local.ErrorCode == quic.ConnectionRefused // we take nobody in any more
	if closed || leaving || errors.Is(cause, session.ErrSelf) || errors.Is(cause, session.ErrSilent) || errors.Is(cause, quic.ErrTransportClosed) {
		return
	}
	if errors.Is(cause, trust.ErrWrongKey) && claim.Network == g.cfg.Member().Network() {
		// It meant our network and refused us all the same.
		cause = errors.New("peer refused our certificate")
	}
	g.cfg.Refusals.Report(a.addr, claim, cause)
}
