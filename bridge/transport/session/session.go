package session

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"time"
	"unicode"

	"achbridge/bridge/trust"
	"achbridge/bridge/via"
)

var (
	// ErrSilent is returned when no packet arrives from the peer, either during the handshake or
	// for the idle timeout.
	ErrSilent = errors.New("peer does not answer")
	// ErrRestarted is returned when the peer no longer knows the session, since its process was
	// restarted. It is detected when the first packet of 40 bytes or more reaches the new
	// process. A session with nothing to send ends with ErrSilent.
	ErrRestarted = errors.New("peer was restarted")
	// ErrSelf is returned when the peer has our own node id: we reached ourselves, or a host
	// with a copy of our state directory.
	ErrSelf = errors.New("peer has our own node id")
	// ErrTooLarge is returned for a datagram that is larger than MaxDatagram.
	ErrTooLarge = errors.New("datagram too large")
)

// CloseError is the error of a session that one end closed, with the reason. It wraps
// net.ErrClosed.
type CloseError struct {
	Reason string
	Remote bool // whether the peer closed the session
}

func (e *CloseError) Error() string {
	text := "closed"
	if e.Remote {
		text = "closed by peer"
	}
	if e.Reason == "" {
		return text
	}
	return text + ": " + e.Reason
}

func (e *CloseError) Unwrap() error { return net.ErrClosed }

// Session is one authenticated association with a peer. Its methods are safe for concurrent
// use. Control allows one reader and one writer at a time.
type Session struct{ made Params }

// Params describes a session that a protocol has established, after the welcome of both ends.
type Params struct {
	Carrier Carrier
	Control io.ReadWriter
	Done    <-chan struct{} // closed when nothing of the session runs any more
	Peer    trust.Peer
	Proof   []*x509.Certificate // the peer's certificates; nil in a pipe
	Self    *trust.Member       // our membership when the session began; nil unless it runs through a hub
	Dialled bool                // whether this end dialled
}

// New returns the Session with these parameters.
func New(p Params) *Session { return &Session{p} }

// Carrier is the interface that a protocol implements to carry a Session. It is large because
// the code above must not depend on anything else of a protocol. A carrier is handed over
// after the welcome. It ends by Close, by its peer or by silence. Once the session's done
// channel is closed, it has no goroutine and no descriptor, and calls that were blocked in it
// or in its streams return. Its errors are those of this package; all others are errors of
// the network.
type Carrier interface {
	Kind() via.Kind
	SendDatagram([]byte) error
	ReceiveDatagram(context.Context) ([]byte, error)
	OpenStream() (SendStream, error)
	AcceptStream(context.Context) (ReceiveStream, error)
	MaxDatagram() int
	Window() int
	RTT() time.Duration
	ReceivedPackets() uint64
	RemoteAddr() net.Addr
	Err() error // asked when done is closed: why the session ended
	Close(reason string)
}

// marker is a Carrier that can mark its packets with a DSCP.
type marker interface {
	SetDSCP(via.DSCP)
	DSCP() via.DSCP
}

// Peer returns the identity that the other end proved.
func (s *Session) Peer() trust.Peer { return s.made.Peer }

// Proof returns the certificates of the other end, or nil in a pipe.
func (s *Session) Proof() []*x509.Certificate { return s.made.Proof }

// Self returns the membership with which this end began the session, or nil unless the session
// runs through a hub.
func (s *Session) Self() *trust.Member { return s.made.Self }

// Network returns the network of the key with which the other end proved its identity.
func (s *Session) Network() string { return trust.NetworkOf(s.made.Proof) }

// SignedBy returns the public key of the certificate that the authority issued for the other
// end's host. It verifies signatures by that host's Endpoint.Signer. It is nil under a shared
// key.
func (s *Session) SignedBy() ed25519.PublicKey { return trust.SignedBy(s.made.Proof) }

// Transport returns the protocol that the session runs over.
func (s *Session) Transport() via.Kind { return s.made.Carrier.Kind() }

// Dialled reports whether this end dialled.
func (s *Session) Dialled() bool { return s.made.Dialled }

// RemoteAddr returns the current address of the peer. It changes when the peer moves.
func (s *Session) RemoteAddr() net.Addr { return s.made.Carrier.RemoteAddr() }

// SetDSCP sets the mark of the packets to the peer from now on. Call it repeatedly, even with the same mark, since the mark is for
// the peer's address at the time of the call. It has no effect on a session through a hub. It does not block.
func (s *Session) SetDSCP(d via.DSCP) {
	if m, ok := s.made.Carrier.(marker); ok {
		m.SetDSCP(d)
	}
}

// DSCP returns the mark of the packets that are sent to the peer now. It is best effort if the kernel refuses marks.
func (s *Session) DSCP() via.DSCP {
	if m, ok := s.made.Carrier.(marker); ok {
		return m.DSCP()
	}
	return via.CS0
}

// Control returns the reliable, ordered stream to the peer. Write blocks while the peer does
// not read. Closing the session ends both directions. Data written just before Close may be
// lost, so a last message should be the reason of Close.
func (s *Session) Control() io.ReadWriter { return s.made.Control }

// SendDatagram copies b and sends it in one packet, which may be lost, duplicated or
// reordered. A datagram larger than MaxDatagram is an error. The call never blocks while the
// caller keeps the bytes in flight within Window. Beyond that a short queue fills. Then the
// call blocks until the network accepts more or the session ends.
func (s *Session) SendDatagram(b []byte) error { return s.made.Carrier.SendDatagram(b) }

// ReceiveDatagram returns the next datagram, which the caller may keep. It must be called
// promptly, from a goroutine that does nothing slow, since it reads from a queue of about a
// hundred datagrams that drops the newest when full.
func (s *Session) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	return s.made.Carrier.ReceiveDatagram(ctx)
}

// MaxDatagram returns the size in bytes of the largest datagram that can be sent now. That is
// 1195 over QUIC and 1156 over SCTP, or 472 over SCTP on a path that does not carry IP packets
// of 1280 bytes. It is 0 through a hub, which carries no datagrams. It may change during the
// session, so call it before filling each datagram. A call takes about 50 ns.
func (s *Session) MaxDatagram() int { return s.made.Carrier.MaxDatagram() }

// Window returns how many bytes may be in flight without a queue in the transport: its
// congestion window less one packet. It is never negative.
func (s *Session) Window() int { return s.made.Carrier.Window() }

// RTT returns the smoothed round-trip time that the transport measures, including the peer's
// acknowledgement delay.
func (s *Session) RTT() time.Duration { return s.made.Carrier.RTT() }

// ReceivedPackets returns the number of packets of any kind that have arrived from the peer. On a live
// session it grows at least every KeepAlive and a round trip, even if neither end sends
// anything, unless packets are lost. Through a hub it counts records, of which at least one
// arrives every second.
func (s *Session) ReceivedPackets() uint64 { return s.made.Carrier.ReceivedPackets() }

// Done returns a channel that is closed when the session has ended, for any reason.
func (s *Session) Done() <-chan struct{} { return s.made.Done }

// Err returns nil until Done is closed, and then the reason why the session ended: a
// *CloseError, ErrSilent, ErrRestarted, or an error of the network.
func (s *Session) Err() error {
	select {
	case <-s.made.Done:
		return s.made.Carrier.Err()
	default:
		return nil
	}
}

// Close ends the session and sends at most 400 bytes of the reason to the peer. It waits until
// no goroutine of the session runs any more. Closing twice is harmless.
func (s *Session) Close(reason string) error {
	s.made.Carrier.Close(Plain(reason))
	<-s.made.Done
	return nil
}

const maxReason = 400

// Plain makes a reason safe for packets, logs and terminals: it returns printable text of at
// most maxReason bytes. It is applied to our reasons and to those of the peer.
func Plain(reason string) string {
	reason = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(reason, "?"))
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	return reason
}
