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
	// ErrSilent says that nothing was heard from the peer: never at all, or not for the idle
	// timeout.
	ErrSilent = errors.New("peer does not answer")
	// ErrRestarted says that the peer no longer knows the session: its process was
	// restarted. The first packet of 40 bytes or more that reaches the new process
	// brings this to light; a session with nothing to send finds ErrSilent.
	ErrRestarted = errors.New("peer was restarted")
	// ErrSelf says that the peer has our own node id: we reached ourselves, or a host
	// whose state directory was copied from ours.
	ErrSelf = errors.New("peer has our own node id")
	// ErrTooLarge says that a datagram is larger than MaxDatagram.
	ErrTooLarge = errors.New("datagram too large")
)

// CloseError says which end closed a session, and the reason. It wraps net.ErrClosed.
type CloseError struct {
	Reason string
	Remote bool // by the peer
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

// Session is one authenticated association with a peer. Its methods may be called
// concurrently, but for Control: one reader and one writer at a time.
type Session struct{ made Params }

// Params is what a protocol has established when both ends have said the welcome.
type Params struct {
	Carrier Carrier
	Control io.ReadWriter
	Done    <-chan struct{} // closed when nothing of the session runs any more
	Peer    trust.Peer
	Proof   []*x509.Certificate // the peer's certificates; nil in a pipe
	Self    *trust.Member       // as which this end began it; through a hub only
	Dialled bool                // by this end
}

// New returns the session that a protocol has established.
func New(p Params) *Session { return &Session{p} }

// Carrier is what a protocol must offer to carry a Session. It is a large interface because
// it is the only seam between protocols: the code above can depend on nothing else. A carrier
// is handed over after the welcome. It ends by close, by its peer or by silence, whichever
// comes first. Once the session's done channel is closed, it holds no goroutine and no
// descriptor, and calls that were blocked in it or in its streams return. Its errors are
// those of session.go; all others are errors of the network.
type Carrier interface {
	Kind() via.Kind
	SendDatagram([]byte) error
	ReceiveDatagram(context.Context) ([]byte, error)
	OpenStream() (SendStream, error)
	AcceptStream(context.Context) (ReceiveStream, error)
	MaxDatagram() int
	Window() int
	RTT() time.Duration
	Heard() uint64
	RemoteAddr() net.Addr
	Err() error // nil until done
	Close(reason string)
}

// Peer returns the identity that the other end proved.
func (s *Session) Peer() trust.Peer { return s.made.Peer }

// Proof returns the certificates of the other end; nil in a pipe.
func (s *Session) Proof() []*x509.Certificate { return s.made.Proof }

// Self returns the key by which this end began the session; nil unless it goes through a hub.
func (s *Session) Self() *trust.Member { return s.made.Self }

// Network returns the network of the key by which the other end proved its identity.
func (s *Session) Network() string { return trust.NetworkOf(s.made.Proof) }

// SignedBy returns the key of the certificate that the other end's host has from the
// authority: it checks what that host signs by its Endpoint.Signer. It is nil under a shared key.
func (s *Session) SignedBy() ed25519.PublicKey { return trust.SignedBy(s.made.Proof) }

// Transport returns the protocol that the session runs over.
func (s *Session) Transport() via.Kind { return s.made.Carrier.Kind() }

// Dialled reports whether this end dialled.
func (s *Session) Dialled() bool { return s.made.Dialled }

// RemoteAddr returns where the peer is now; it changes when the peer moves.
func (s *Session) RemoteAddr() net.Addr { return s.made.Carrier.RemoteAddr() }

// Control returns the reliable, ordered stream to the peer. Write blocks while
// the peer does not read; closing the session ends both directions. What was
// written just before Close may be lost, so a last word belongs in its reason.
func (s *Session) Control() io.ReadWriter { return s.made.Control }

// SendDatagram copies b and sends it in one packet, which may be lost, duplicated or
// overtaken. A datagram larger than MaxDatagram is an error. The call never blocks while
// the caller keeps the bytes in flight within Window. Beyond that a short queue fills,
// and then the call blocks until the network takes more or the session ends.
func (s *Session) SendDatagram(b []byte) error { return s.made.Carrier.SendDatagram(b) }

// ReceiveDatagram returns the next datagram, which is the caller's to keep. It
// must be called promptly, from a goroutine that does nothing slow: behind it is
// a queue of some hundred datagrams that drops the newest when full.
func (s *Session) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	return s.made.Carrier.ReceiveDatagram(ctx)
}

// MaxDatagram returns the size in bytes of the largest datagram that can be sent
// now: 1195 over QUIC, 1156 over SCTP, and 472 there on a path that does not carry 1280
// bytes of IP; 0 through a hub, which carries none. It may change while the session lives, so ask before filling each
// datagram; that costs some 50 ns.
func (s *Session) MaxDatagram() int { return s.made.Carrier.MaxDatagram() }

// Window returns how many bytes may be in flight without a queue in the transport: its
// congestion window less one packet. Never negative.
func (s *Session) Window() int { return s.made.Carrier.Window() }

// RTT returns the smoothed round-trip time as the transport sees it, including
// the peer's delay in acknowledging.
func (s *Session) RTT() time.Duration { return s.made.Carrier.RTT() }

// Heard counts the packets that have arrived from the peer, of any kind. On a live
// session it grows at least every KeepAlive and a round trip, even when neither end
// sends anything, unless packets are lost. Through a hub it counts records, of which there is
// one every second.
func (s *Session) Heard() uint64 { return s.made.Carrier.Heard() }

// Done is closed when the session has ended, for whatever reason.
func (s *Session) Done() <-chan struct{} { return s.made.Done }

// Err returns nil until Done is closed, then why the session ended: a *CloseError,
// ErrSilent, that the peer was restarted, or an error of the network.
func (s *Session) Err() error { return s.made.Carrier.Err() }

// Close ends the session and sends the peer the reason, at most 400 bytes of it. It
// waits until nothing of the session runs any more. Closing twice is harmless.
func (s *Session) Close(reason string) error {
	s.made.Carrier.Close(Plain(reason))
	<-s.made.Done
	return nil
}

const maxReason = 400

// plain makes a reason safe for packets, logs and terminals: printable text of at
// most maxReason bytes. What the peer sent passes through it too.
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
