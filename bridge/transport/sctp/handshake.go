package sctp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/dtls/v3/pkg/protocol/alert"
	"github.com/pion/logging"
	"github.com/pion/sctp"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// handshake is the state of one handshake, until it becomes a session or fails.
//
// The initial packet and the cookie are followed by DTLS, in two round trips. Then each side
// sends one record, the hello. It has session.WelcomeByte; the INIT chunk, which SCTP would
// otherwise exchange itself in two more round trips (draft-hancke-tsvwg-snap); and the reset
// token, which its sender will use if it has lost the session. The dialler repeats its hello
// until it has the answer. At first the hello and its answer are padded to the longest packets
// of the session: if the answer arrives, the path carries such packets. If none arrives after
// wideTries, the dialler sends the hello without padding, and the session uses packets that
// every path carries.
type handshake struct {
	p      *Protocol
	member *trust.Member // as it was when the handshake began
	path   *path
	place  session.Handshake // the peer's entry in the limits; nil if this end dialled
	claim  trust.Claim       // the dialler's claim, from its ClientHello
	peer   trust.Peer
	proof  []*x509.Certificate
	token  []byte // our INIT chunk
	mtu    int    // size of the session's SCTP packets, bytes: wideMTU or narrowMTU
	fault  error  // reason for refusing the peer's certificate
}

const (
	// handshakePacket is the packet size that pion/dtls uses for the handshake. With headers and
	// shim its packets are up to 51 bytes larger, and every path carries them.
	handshakePacket = 480
	// wideTries is the number of times that a dialler tries long packets.
	wideTries = 2
)

func (m *handshake) options() []dtls.Option {
	return []dtls.Option{
		dtls.WithCipherSuites(dtls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
		dtls.WithExtendedMasterSecret(dtls.RequireExtendedMasterSecret),
		dtls.WithSupportedProtocols(session.ALPN),
		// trust.Member replaces the standard verification, which checks dates and names.
		dtls.WithInsecureSkipVerify(true),
		dtls.WithVerifyPeerCertificate(m.verify),
		dtls.WithConnectionIDGenerator(func() []byte { return m.path.id[:] }),
		dtls.WithMTU(handshakePacket),
		dtls.WithFlightInterval(repeatPeriod),
		dtls.WithReplayProtectionWindow(1024),
		dtls.WithLoggerFactory(silentLogs()),
	}
}

func (m *handshake) clientOptions() []dtls.ClientOption {
	options := []dtls.ClientOption{
		dtls.WithServerName(session.ServerName(m.member.Network())),
		dtls.WithGetClientCertificate(func(*dtls.CertificateRequestInfo) (*tls.Certificate, error) { return m.member.Certificate() }),
	}
	for _, o := range m.options() {
		options = append(options, o)
	}
	return options
}

func (m *handshake) serverOptions() []dtls.ServerOption {
	options := []dtls.ServerOption{
		dtls.WithClientAuth(dtls.RequireAnyClientCert),
		dtls.WithInsecureSkipVerifyHello(true), // the shim has verified the address
		dtls.WithGetCertificate(func(h *dtls.ClientHelloInfo) (*tls.Certificate, error) {
			m.place.Reached(session.AtHandshake)
			m.claim.Network = session.NamedNetwork(h.ServerName)
			return m.member.Certificate()
		}),
	}
	for _, o := range m.options() {
		options = append(options, o)
	}
	return options
}

// silentLogs discards the logs of the libraries, since unknown peers can cause their lines.
func silentLogs() logging.LoggerFactory {
	return &logging.DefaultLoggerFactory{Writer: io.Discard, DefaultLogLevel: logging.LogLevelDisabled}
}

func (m *handshake) verify(raw [][]byte, _ [][]*x509.Certificate) error {
	m.peer, m.fault = m.identify(raw)
	if m.fault != nil {
		m.path.alert.Store(uint32(session.AlertFor(m.fault)))
	}
	return m.fault
}

func (m *handshake) identify(raw [][]byte) (trust.Peer, error) {
	chain, err := trust.ParseChain(raw)
	if err != nil {
		return trust.Peer{}, err
	}
	m.proof = chain
	return m.member.Verify(chain)
}

// greeter is one side of the exchange of hellos after DTLS. It returns the peer's hello.
type greeter func(m *handshake, ctx context.Context, conn *dtls.Conn) ([]byte, error)

// meet completes a session over conn, or closes conn. rtt is zero if unknown.
func (m *handshake) meet(ctx context.Context, conn *dtls.Conn, do greeter, rtt time.Duration) (*session.Session, error) {
	s, err := m.shake(ctx, conn, do, rtt)
	if err != nil {
		conn.Close()
		return nil, m.cause(err)
	}
	return s, nil
}

func (m *handshake) shake(ctx context.Context, conn *dtls.Conn, do greeter, rtt time.Duration) (*session.Session, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state, ok := conn.ConnectionState()
	switch {
	case !ok || state.NegotiatedProtocol != session.ALPN:
		return nil, errors.New("peer speaks another application protocol")
	case m.peer.Node == m.member.Self().Node:
		return nil, session.ErrSelf
	case m.path.outgoing() == cid{}:
		return nil, errors.New("peer has no connection id")
	}
	m.path.isKnown.Store(true)
	var err error
	if m.token, err = sctp.GenerateOutOfBandToken(associationOptions(conn, wideMTU)...); err != nil {
		return nil, err
	}
	start := time.Now()
	received, err := do(m, ctx, conn)
	if err != nil {
		return nil, err
	}
	h, ok := parseHello(received)
	if !ok {
		return nil, errors.New("welcome: not a hello")
	}
	m.mtu = h.mtu
	if rtt == 0 {
		rtt = time.Since(start)
	}
	l, err := newLink(m, conn, h, rtt)
	if err != nil {
		return nil, err
	}
	return session.New(session.Params{Carrier: l, Control: l.streams.control, Done: l.done, Peer: m.peer, Proof: m.proof, Dialled: m.place == nil}), nil
}

// askHello is the dialler's greeter.
func askHello(m *handshake, ctx context.Context, conn *dtls.Conn) ([]byte, error) {
	m.path.sealed.Store(true) // the last flight of DTLS is the acceptor's
	for try := 1; ; try++ {
		mtu := wideMTU
		if try > wideTries {
			mtu = narrowMTU
		}
		if _, err := conn.Write(m.ownHello(mtu)); err != nil {
			return nil, err
		}
		received, err := readHello(ctx, conn, repeatPeriod)
		if netErr, ok := errors.AsType[net.Error](err); !ok || !netErr.Timeout() || ctx.Err() != nil {
			return received, err
		}
	}
}

// readFirstHello is the acceptor's greeter. The answer is sent once there is a session, see
// serve. If the answer is lost, the dialler repeats its hello, see tap.
func readFirstHello(m *handshake, ctx context.Context, conn *dtls.Conn) ([]byte, error) {
	m.place.Reached(session.AtWelcome)
	received, err := readHello(ctx, conn, session.HandshakeTimeout)
	m.path.sealed.Store(err == nil) // until now the dialler may have missed the last packets of DTLS
	return received, err
}

// readHello waits for the peer's hello. It ignores other records, which arrive too early.
func readHello(ctx context.Context, conn *dtls.Conn, wait time.Duration) ([]byte, error) {
	conn.SetReadDeadline(time.Now().Add(wait))
	disarm := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer func() {
		if disarm() {
			conn.SetReadDeadline(time.Time{})
		}
	}()
	b := make([]byte, largestPacket)
	for {
		n, err := conn.Read(b)
		switch {
		case err != nil:
			return nil, err
		case n > 0 && b[0] == session.WelcomeByte:
			return b[:n], nil
		case n > 0 && b[0] != firstByte:
			return nil, fmt.Errorf("welcome: got byte %#x, want %#x", b[0], session.WelcomeByte)
		}
		for typ, chunk := range chunks(b[:n]) {
			if typ == chunkAbort { // the peer refused the session at once
				return nil, &session.CloseError{Reason: abortReason(chunk), Remote: true}
			}
		}
	}
}

// cause converts the error of a handshake into an error of package session.
func (m *handshake) cause(err error) error {
	if m.fault != nil {
		return m.fault
	}
	// The peer proves its identity before the handshake ends. If it is this node itself, it may
	// detect that first and end the handshake.
	if m.peer.Node == m.member.Self().Node {
		return session.ErrSelf
	}
	if _, closed := errors.AsType[*session.CloseError](err); closed {
		return err
	}
	for _, a := range []byte{session.AlertBad, session.AlertRevoked, session.AlertExpired} {
		// The alert has a type that pion does not export.
		if strings.HasSuffix(err.Error(), ": "+alert.Description(a).String()) {
			return session.AlertError(a)
		}
	}
	if errors.Is(err, io.EOF) {
		return &session.CloseError{Remote: true}
	}
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return session.ErrSilent
	}
	return err
}

// report logs a dialler that was refused, or that refused us. It logs nothing for a member, a
// lost answer, or if this node is closing.
func (m *handshake) report(ctx context.Context, from net.Addr, err error) {
	if refused, ok := errors.AsType[*trust.Refusal](err); ok {
		m.p.cfg.Refusals.Report(from, refused.Claim, refused.Err)
		return
	}
	_, closed := errors.AsType[*session.CloseError](err)
	if m.peer != (trust.Peer{}) || closed || ctx.Err() != nil || errors.Is(err, session.ErrSelf) || errors.Is(err, session.ErrSilent) || errors.Is(err, net.ErrClosed) {
		return
	}
	if errors.Is(err, trust.ErrWrongKey) && m.claim.Network == m.member.Network() {
		// The peer requested our network but refused our certificate.
		err = errors.New("peer refused our certificate")
	}
	m.p.cfg.Refusals.Report(from, m.claim, err)
}
