package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/quic-go/quic-go"
)

// quicGuard bounds what strangers cost: each unfinished handshake holds a few
// dozen kilobytes and two goroutines for up to 10 s. It also learns how each ends,
// for the log: quic-go tells nobody about connections it never hands out.
type quicGuard struct {
	refusals *refusals
	handshakes
}

const (
	// crowd is how many handshakes may be pending before newcomers must first
	// prove their address (QUIC Retry): from there on forged addresses get nowhere.
	crowd = 8

	serverSuffix = ".achbridge"
)

var errCrowded = errors.New("too many handshakes pending")

func newQUICGuard(r *refusals) *quicGuard {
	return &quicGuard{refusals: r, handshakes: newHandshakes()}
}

// attempt is one incoming connection until the welcome.
type attempt struct {
	addr    net.Addr
	release func() // idempotent

	mu    sync.Mutex
	known bool  // its certificate was accepted
	claim claim // from the greeting
}

type attemptKey struct{}

// crowded is quic.Transport.VerifySourceAddress.
func (g *quicGuard) crowded(net.Addr) bool { return g.atLeast(crowd) }

// admit is quic.Transport.ConnContext: it counts the attempt in, and out again
// when the connection ends or authenticated says so.
func (g *quicGuard) admit(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	host := ""
	if info.AddrVerified {
		host = hostPart(info.RemoteAddr)
	}
	if !g.enter(host) {
		return nil, errCrowded
	}
	a := &attempt{addr: info.RemoteAddr, release: sync.OnceFunc(func() { g.leave(host) })}
	context.AfterFunc(ctx, func() {
		a.release()
		g.ended(a, context.Cause(ctx))
	})
	return context.WithValue(ctx, attemptKey{}, a), nil
}

// hello is tls.Config.GetConfigForClient. It changes nothing, but notes which
// network the dialler expects here.
func (g *quicGuard) hello(h *tls.ClientHelloInfo) (*tls.Config, error) {
	a, ok := h.Context().Value(attemptKey{}).(*attempt)
	network, named := strings.CutSuffix(h.ServerName, serverSuffix)
	if ok && named && isNetwork(network) {
		a.mu.Lock()
		a.claim.network = network
		a.mu.Unlock()
	}
	return nil, nil
}

// authenticated marks a connection whose handshake is complete, and returns what
// to call when it has become a session or not.
func (g *quicGuard) authenticated(conn *quic.Conn) (release func()) {
	a := conn.Context().Value(attemptKey{}).(*attempt)
	a.mu.Lock()
	a.known = true
	a.mu.Unlock()
	return a.release
}

// ended logs how an attempt ended, unless it was a member's or came to nothing
// without a fault: an answer lost, our own closing.
func (g *quicGuard) ended(a *attempt, cause error) {
	a.mu.Lock()
	known, claim := a.known, a.claim
	a.mu.Unlock()
	if known {
		return
	}
	if refused, ok := errors.AsType[*refusal](cause); ok { // we refused it
		g.refusals.report(a.addr, refused.claim, refused.err)
		return
	}
	cause = quicCause(cause)
	_, closed := errors.AsType[*CloseError](cause) // speaks only who has been let in
	local, ok := errors.AsType[*quic.TransportError](cause)
	leaving := ok && !local.Remote && local.ErrorCode == quic.ConnectionRefused // we take nobody in any more
	if closed || leaving || errors.Is(cause, ErrSelf) || errors.Is(cause, ErrSilent) || errors.Is(cause, quic.ErrTransportClosed) {
		return
	}
	if errors.Is(cause, ErrWrongKey) && claim.network == g.refusals.network() {
		// It meant our network and refused us all the same.
		cause = errors.New("peer refused our certificate")
	}
	g.refusals.report(a.addr, claim, cause)
}
