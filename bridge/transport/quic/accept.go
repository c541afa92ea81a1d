package quic

import (
	"context"
	"crypto/tls"
	"errors"

	"github.com/quic-go/quic-go"

	"achbridge/bridge/transport/session"
)

// listen starts a new listener. There must be no open one.
func (p *Protocol) listen() error {
	listenTLS := session.TLSConfig(p.cfg.Member)
	listenTLS.ClientAuth = tls.RequireAnyClientCert
	listenTLS.GetConfigForClient = p.guard.hello
	listenConf := newConfig(p.cfg.IdleTimeout)
	listenConf.MaxIncomingStreams = 1 // the control stream
	// Early means as soon as the ClientHello has arrived. There is no early data: Allow0RTT is off.
	listener, err := p.transport.ListenEarly(listenTLS, listenConf)
	if err == nil {
		p.listener.Store(listener)
	}
	return err
}

// accept accepts connections whose ClientHello has arrived.
func (p *Protocol) accept(ctx context.Context) {
	for {
		conn, err := p.listener.Load().Accept(ctx)
		if errors.Is(err, quic.ErrServerClosed) { // makeRoom has closed the listener
			if err = p.listen(); err == nil {
				continue
			}
		}
		if err != nil {
			p.cfg.Inbox.Failed(causeOf(err))
			return
		}
		p.wg.Go(func() { p.serve(ctx, conn) })
	}
}

// makeRoom closes the listener when the guard requests it. That closes all connections without
// a complete ClientHello.
func (p *Protocol) makeRoom(ctx context.Context) {
	for {
		select {
		case <-p.guard.full:
			p.listener.Load().Close()
		case <-ctx.Done():
			return
		}
	}
}

// serve runs the acceptor's side of a handshake.
func (p *Protocol) serve(ctx context.Context, conn *quic.Conn) {
	a := attemptOf(conn.Context())
	defer a.place.Leave()
	if !a.handedOut(conn) {
		conn.CloseWithError(codeUnwelcome, tooManyHandshakes)
		return
	}
	select {
	case <-conn.HandshakeComplete():
	case <-conn.Context().Done():
		return
	}
	a.authenticated()
	if p.cfg.Leaving() {
		conn.CloseWithError(codeUnwelcome, session.LeavingReason)
		return
	}
	s, err := p.meet(ctx, conn, giveWelcome, false)
	if err == nil {
		p.cfg.Inbox.Arrived(s)
	}
}

// giveWelcome is the acceptor's side of the welcome.
func giveWelcome(ctx context.Context, conn *quic.Conn) (*quic.Stream, error) {
	stream, err := conn.AcceptStream(ctx)
	if err != nil {
		return nil, err
	}
	if err := readWelcome(stream); err != nil {
		return nil, err
	}
	_, err = stream.Write([]byte{session.WelcomeByte})
	return stream, err
}
