package quic

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

const (
	// Application error codes of a CONNECTION_CLOSE. The reason is in its text;
	// the code only distinguishes a closed session from one that was never established.
	codeClosed    quic.ApplicationErrorCode = 0
	codeUnwelcome quic.ApplicationErrorCode = 1
	codeSelf      quic.ApplicationErrorCode = 2 // the peer has our own node id

	// firstAlert is the QUIC error code of TLS alert 0 (RFC 9001 section 4.8).
	firstAlert quic.TransportErrorCode = 0x100
)

// Protocol makes sessions over QUIC (RFC 9000, RFC 9221).
type Protocol struct {
	cfg       session.Settings
	conn      net.PacketConn
	marks     *marks // nil if the socket cannot mark packets
	transport *quic.Transport
	listener  atomic.Pointer[quic.EarlyListener]
	dialTLS   *tls.Config
	dialConf  *quic.Config
	guard     *guard

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// Listen starts accepting and dialling sessions over conn. It owns conn unless it returns an
// error. The function isLinked reports whether there is a session with an address.
func Listen(conn net.PacketConn, cfg session.Settings, isLinked func(netip.Addr) bool) (*Protocol, error) {
	guard := newGuard(cfg)
	p := &Protocol{
		cfg:   cfg,
		conn:  conn,
		guard: guard,
		transport: &quic.Transport{
			Conn:                quiet(conn, isLinked, cfg.Marking),
			StatelessResetKey:   (*quic.StatelessResetKey)(cfg.ResetSecret),
			VerifySourceAddress: guard.isFull,
			ConnContext:         guard.admit,
		},
		dialTLS:  session.TLSConfig(cfg.Member),
		dialConf: newConfig(cfg.IdleTimeout),
	}
	p.dialConf.MaxIncomingStreams = -1
	if s, ok := p.transport.Conn.(*quietSocket); ok {
		p.marks = s.marks
	}

	if err := p.listen(); err != nil {
		p.transport.Close()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.wg.Go(func() { p.accept(ctx) })
	p.wg.Go(func() { p.makeRoom(ctx) })
	return p, nil
}

// maxStreamWindow is the largest window, in bytes, of a stream that is read fast. With a round
// trip of 20 ms it allows 200 Mbit/s.
const maxStreamWindow = 512 << 10

func newConfig(idle time.Duration) *quic.Config {
	keepAlive := min(idle/4, session.KeepAlive)
	return &quic.Config{
		Versions:             []quic.Version{quic.Version1},
		HandshakeIdleTimeout: session.HandshakeTimeout,
		// quic-go offers no setting for acknowledgements. It sends one for every second packet,
		// or 25 ms after a packet, in a packet of its own: a datagram carries only an
		// acknowledgement that is already due. A keep-alive is sent only when nothing has arrived
		// for KeepAlivePeriod, or for 1.5 PTO if that is longer.
		// A keep-alive without an answer restarts QUIC's own timer (RFC 9000 section 10.1).
		MaxIdleTimeout:  idle - keepAlive,
		KeepAlivePeriod: keepAlive,
		EnableDatagrams: true,
		// These limits bound the memory that a peer can make us use: ConnectionWindow of
		// received bytes that are not read, and MaxStreams streams. (For a peer that
		// sends single bytes, quic-go uses about a hundred bytes for each.) We announce
		// the limits in our first answer, but a peer cannot use them before its
		// certificate was accepted: QUIC processes no stream earlier (RFC 9001 section
		// 5.7), and there is no early data. A member can, until HandshakeTimeout ends
		// the wait for its welcome.
		InitialStreamReceiveWindow:     session.StreamWindow,
		MaxStreamReceiveWindow:         maxStreamWindow,
		InitialConnectionReceiveWindow: session.ConnectionWindow,
		MaxConnectionReceiveWindow:     session.ConnectionWindow,
		MaxIncomingUniStreams:          session.MaxStreams,
		// Larger packets, once discovered, would always be lost after the robot moves to a
		// path with a smaller MTU, and the control stream with them.
		InitialPacketSize:       session.PacketSize,
		DisablePathMTUDiscovery: true,
	}
}

// Dial returns a session after the welcome. It returns trust.ErrWrongKey for peers of other
// networks, and session.ErrSelf for this node itself.
func (p *Protocol) Dial(ctx context.Context, addr net.Addr) (*session.Session, error) {
	// quic-go panics on other addresses when it writes to a real socket.
	_, isUDP := addr.(*net.UDPAddr)
	if _, isReal := p.conn.(quic.OOBCapablePacketConn); addr == nil || isReal && !isUDP {
		return nil, fmt.Errorf("not a UDP address: %T", addr)
	}
	dialTLS := p.dialTLS.Clone()
	dialTLS.ServerName = session.ServerName(p.cfg.Member().Network())
	conn, err := p.transport.Dial(ctx, addr, dialTLS, p.dialConf)
	switch err = causeOf(err); {
	case errors.Is(err, session.ErrSilent):
		return nil, fmt.Errorf("%w, or the path drops packets of %d bytes, which QUIC needs", err, session.PacketSize)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w, or the path drops packets of %d bytes, which QUIC needs%.0w", session.ErrSilent, session.PacketSize, err)
	case err != nil:
		return nil, err
	}
	return p.meet(ctx, conn, askWelcome, true)
}

// leastDatagram is the datagram size, in bytes, that every session supports. QUIC packets have
// 1200 bytes or more, and SCTP packets on the smallest path leave 472.
const leastDatagram = 472

// welcome is one side of the exchange that opens the control stream.
type welcome func(context.Context, *quic.Conn) (*quic.Stream, error)

// meet completes a session over conn, or closes conn. The peer has presented a certificate of
// our network.
func (p *Protocol) meet(ctx context.Context, conn *quic.Conn, do welcome, dialled bool) (*session.Session, error) {
	chain, member := conn.ConnectionState().TLS.PeerCertificates, p.cfg.Member()
	peer, err := member.Verify(chain)
	code := codeUnwelcome
	if err == nil && peer.Node == member.Self().Node {
		err, code = session.ErrSelf, codeSelf
	}
	if most := (&link{conn: conn}).MaxDatagram(); err == nil && most < leastDatagram {
		err = fmt.Errorf("peer accepts datagrams of at most %d bytes, so it is not achbridge, which accepts %d", most, leastDatagram)
	}
	if err != nil {
		conn.CloseWithError(code, session.Plain(err.Error()))
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, session.HandshakeTimeout, session.ErrSilent)
	defer cancel()
	// Streams know no context: the end of ctx closes the connection under them.
	disarm := context.AfterFunc(ctx, func() { conn.CloseWithError(codeUnwelcome, "no welcome in time") })
	stream, err := do(ctx, conn)
	inTime := disarm()
	switch {
	case !inTime:
		<-conn.Context().Done()
		return nil, context.Cause(ctx)
	case err != nil:
		conn.CloseWithError(codeUnwelcome, session.Plain(err.Error()))
		return nil, causeOf(err)
	}
	stream.SetPriority(controlUrgency, true)
	return session.New(session.Params{
		Carrier: &link{conn: conn, marks: p.marks},
		Control: controlStream{stream},
		Done:    conn.Context().Done(),
		Peer:    peer,
		Proof:   chain,
		Dialled: dialled,
	}), nil
}

// askWelcome is the dialler's side of the welcome.
func askWelcome(ctx context.Context, conn *quic.Conn) (*quic.Stream, error) {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := stream.Write([]byte{session.WelcomeByte}); err != nil {
		return nil, err
	}
	return stream, readWelcome(stream)
}

func readWelcome(stream io.Reader) error {
	var b [1]byte
	if _, err := io.ReadFull(stream, b[:]); err != nil {
		return err
	}
	if b[0] != session.WelcomeByte {
		return fmt.Errorf("welcome: got byte %#x, want %#x", b[0], session.WelcomeByte)
	}
	return nil
}

// Close closes the socket and ends the sessions without a goodbye. It waits for all goroutines
// but those of sessions.
func (p *Protocol) Close() {
	p.stop()
	p.conn.Close() // first, to unblock writers
	p.transport.Close()
	p.wg.Wait()
}

// causeOf converts the error of a connection into an error of this package or of session.
func causeOf(err error) error {
	if e, ok := errors.AsType[*quic.ApplicationError](err); ok {
		if e.Remote && e.ErrorCode == codeSelf {
			return session.ErrSelf // our own other end detected it first
		}
		return &session.CloseError{Reason: session.Plain(e.ErrorMessage), Remote: e.Remote}
	}
	if e, ok := errors.AsType[*quic.TransportError](err); ok && e.Remote {
		if alert := session.AlertError(byte(e.ErrorCode - firstAlert)); e.ErrorCode.IsCryptoError() && alert != nil {
			return alert
		}
		if e.ErrorCode == quic.ApplicationErrorErrorCode { // closed before its reason could be sent
			return &session.CloseError{Remote: true}
		}
	}
	if e, ok := errors.AsType[*quic.TransportError](err); ok && !e.Remote && e.ErrorCode == quic.InternalError {
		cause := e.ErrorMessage[strings.LastIndex(e.ErrorMessage, ": ")+1:] // omit the system call and the addresses
		return fmt.Errorf("nothing can be sent to the peer: %s%.0w", strings.TrimSpace(cause), err)
	}
	if r, ok := errors.AsType[*trust.Refusal](err); ok {
		return r
	}
	if _, ok := errors.AsType[*quic.StatelessResetError](err); ok {
		return session.ErrRestarted
	}
	_, idle := errors.AsType[*quic.IdleTimeoutError](err)
	_, slow := errors.AsType[*quic.HandshakeTimeoutError](err)
	if idle || slow {
		return session.ErrSilent
	}
	return err
}
