package overtls

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// Protocol makes sessions over byte streams that the caller provides: TLS 1.3 (RFC 8446) with
// our own records inside. The relay of the streams is considered an adversary. It can end a
// session, and it sees which hosts communicate, when and how much; nothing else.
//
// Both ends complete the TLS handshake even if they refuse the other's certificate, and send
// the result in the first record. The alerts of crypto/tls cannot give the reason for refusing
// a certificate. A dialler that refuses the acceptor presents no certificate.
type Protocol struct {
	cfg session.Settings

	ctx  context.Context // canceled by Close
	stop context.CancelFunc

	mu   sync.Mutex
	over bool
	wg   sync.WaitGroup // one per handshake; grows only under mu while over is false
}

// New returns a Protocol that needs no ResetSecret.
func New(cfg session.Settings) *Protocol {
	p := &Protocol{cfg: cfg}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Dial makes a session with the node at the other end of conn, where that end calls Accept. The
// protocol owns conn from now on.
func (p *Protocol) Dial(ctx context.Context, conn net.Conn) (*session.Session, error) {
	if !p.begin() {
		conn.Close()
		return nil, net.ErrClosed
	}
	defer p.wg.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(net.ErrClosed) })()
	return p.meet(ctx, conn, true, (*handshake).ask)
}

// Accept begins a session with the node that calls Dial at the other end of conn. It does not
// wait; the session arrives in the Inbox. The protocol owns conn from now on.
func (p *Protocol) Accept(conn net.Conn) {
	if !p.begin() {
		conn.Close()
		return
	}
	go func() {
		defer p.wg.Done()
		place := p.cfg.Handshakes.Enter(sourceOf(conn.RemoteAddr()), func() { go conn.Close() })
		defer place.Leave()
		s, err := p.meet(p.ctx, conn, false, func(m *handshake, ctx context.Context) error { return m.answer(ctx, place) })
		if err == nil {
			p.cfg.Inbox.Arrived(s)
		}
	}()
}

// sourceOf returns a unique address for each host behind a hub, by which Handshakes counts it.
func sourceOf(addr net.Addr) netip.Addr {
	if ip := session.AddrOf(addr); ip.IsValid() {
		return ip
	}
	sum := sha256.Sum256([]byte(addr.String()))
	return netip.AddrFrom16([16]byte(sum[:]))
}

// begin counts a new handshake. It returns false if the protocol is closed.
func (p *Protocol) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.wg.Add(1)
	}
	return !p.over
}

// Close ends unfinished handshakes and waits for their end.
func (p *Protocol) Close() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.stop()
	p.wg.Wait()
}

// handshake is the state of one handshake, from its first byte to the welcome.
type handshake struct {
	*Protocol
	conn      net.Conn
	self      *trust.Member // our membership in this handshake
	tls       *tls.Conn
	link      *link
	claim     trust.Claim // the dialler's claim, from its ClientHello
	verifyErr error       // result of verifying the peer's certificates
	peer      trust.Peer
	chain     []*x509.Certificate
}

// meet runs a handshake over conn and returns the session. On an error it closes conn.
func (p *Protocol) meet(ctx context.Context, conn net.Conn, dialled bool, do func(*handshake, context.Context) error) (*session.Session, error) {
	m := &handshake{Protocol: p, conn: conn, self: p.cfg.Member()}
	err := do(m, ctx)
	if err != nil {
		conn.Close()
		return nil, err
	}
	m.link.begin()
	return session.New(session.Params{Carrier: m.link, Control: controlStream{m.link}, Done: m.link.done, Peer: m.peer, Proof: m.chain, Self: m.self, Dialled: dialled}), nil
}

// ask runs the dialler's side.
func (m *handshake) ask(ctx context.Context) error {
	cfg := m.config()
	cfg.ServerName = session.ServerName(m.self.Network())
	m.tls = tls.Client(m.conn, cfg)
	if err := m.shake(ctx); err != nil {
		return err
	}
	return m.inTime(ctx, func() error {
		kind, word := m.word()
		began := time.Now()
		if err := m.link.put(kind, word); err != nil || kind != recordWelcome {
			return cmp.Or(m.verifyErr, err)
		}
		err := m.readWord()
		m.link.noteRTT(time.Since(began))
		return err
	})
}

// answer runs the acceptor's side. It reads the dialler's first record before it sends its own:
// unread data would make TCP discard the answer when the connection is closed.
func (m *handshake) answer(ctx context.Context, place session.Handshake) error {
	cfg := m.config()
	cfg.ClientAuth = tls.RequestClientCert
	cfg.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		place.Reached(session.AtHandshake)
		m.claim.Network = session.NamedNetwork(h.ServerName)
		return nil, nil
	}
	m.tls = tls.Server(m.conn, cfg)
	err := m.shake(ctx)
	if err == nil {
		err = m.inTime(ctx, func() error {
			if err := m.readWord(); err != nil {
				return err
			}
			kind, word := m.word()
			if kind == recordWelcome {
				place.Reached(session.AtWelcome)
			}
			return cmp.Or(m.verifyErr, m.link.put(kind, word))
		})
	}
	if err != nil {
		m.report(err)
	}
	return err
}

// config returns the TLS configuration of both sides. It accepts all certificates; word refuses
// them.
func (m *handshake) config() *tls.Config {
	cfg := session.TLSConfig(m.cfg.Member)
	cfg.DynamicRecordSizingDisabled = true // so that each of our records is one TLS record
	var refused error
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		_, refused = m.cfg.Member().Verify(cs.PeerCertificates)
		return nil
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if refused != nil {
			return &tls.Certificate{}, nil
		}
		return m.self.Certificate()
	}
	cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return m.self.Certificate() }
	return cfg
}

// shake completes the TLS handshake and verifies the peer's certificates. The result is in
// verifyErr.
func (m *handshake) shake(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, session.HandshakeTimeout, session.ErrSilent)
	defer cancel()
	began := time.Now()
	if err := m.tls.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return causeOf(err)
	}
	cs := m.tls.ConnectionState()
	if cs.NegotiatedProtocol != session.ALPN {
		return fmt.Errorf("protocol: got %q, want %q", cs.NegotiatedProtocol, session.ALPN)
	}
	member := m.cfg.Member()
	m.chain = cs.PeerCertificates
	m.peer, m.verifyErr = member.Verify(m.chain)
	if m.verifyErr == nil && m.peer.Node == member.Self().Node {
		m.verifyErr = session.ErrSelf
	}
	m.link = newLink(m.conn, m.tls, m.cfg.IdleTimeout)
	m.link.noteRTT(time.Since(began)) // an overestimate, replaced by the next measurement
	return nil
}

// inTime runs a step that has no context. When ctx ends or the timeout passes, it closes the
// connection to end the step.
func (m *handshake) inTime(ctx context.Context, step func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, session.HandshakeTimeout, session.ErrSilent)
	defer cancel()
	disarm := context.AfterFunc(ctx, func() { m.conn.Close() })
	err := step()
	if !disarm() {
		return context.Cause(ctx)
	}
	return err
}

// word returns the first record that this end sends: a welcome, or a refusal.
func (m *handshake) word() (byte, []byte) {
	switch {
	case errors.Is(m.verifyErr, session.ErrSelf):
		return recordSelf, nil
	case m.verifyErr != nil:
		return recordRefused, []byte{session.AlertFor(m.verifyErr)}
	case m.cfg.Leaving():
		m.verifyErr = &session.CloseError{Reason: session.LeavingReason}
		return recordClose, []byte(session.LeavingReason)
	}
	return recordWelcome, nil
}

// readWord reads the peer's first record.
func (m *handshake) readWord() error {
	kind, word, err := m.link.read()
	switch {
	case err != nil:
		return causeOf(err)
	case kind == recordWelcome:
		return nil
	case kind == recordSelf:
		return session.ErrSelf // our own other end detected it first
	case kind == recordClose:
		return &session.CloseError{Reason: session.Plain(string(word)), Remote: true}
	case kind == recordRefused && len(word) == 1:
		return cmp.Or(session.AlertError(word[0]), errRefused)
	}
	return fmt.Errorf("welcome: got record %d of %d bytes, want %d", kind, len(word), recordWelcome)
}

var (
	errRefused = errors.New("peer refused our certificate")
	// ErrCut is returned when the byte stream has ended without a close by the peer.
	ErrCut = errors.New("connection through the hub was cut")
)

// report logs why a handshake failed, unless the cause is normal: a close, silence, a cut
// stream, or our own node.
func (m *handshake) report(err error) {
	addr := m.conn.RemoteAddr()
	if refused, ok := errors.AsType[*trust.Refusal](err); ok {
		m.cfg.Refusals.Report(addr, refused.Claim, refused.Err)
		return
	}
	_, closed := errors.AsType[*session.CloseError](err)
	if closed || m.ctx.Err() != nil || errors.Is(err, session.ErrSelf) || errors.Is(err, session.ErrSilent) || errors.Is(err, ErrCut) || errors.Is(err, net.ErrClosed) {
		return
	}
	if errors.Is(err, trust.ErrWrongKey) && m.claim.Network == m.cfg.Member().Network() {
		err = errRefused // the peer requested our network but refused our certificate
	}
	m.cfg.Refusals.Report(addr, m.claim, err)
}

// causeOf converts the error of a connection into an error of this package or of session.
func causeOf(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return session.ErrSilent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return ErrCut
	}
	return err
}
