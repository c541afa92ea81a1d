package transport

import (
	"crypto/tls"
	"fmt"
	"time"

	"achbridge/bridge/trust"
)

// KeepAlive is the longest time between two packets from the peer of a session, or a quarter
// of the idle timeout if that is less.
const KeepAlive = 250 * time.Millisecond

const (
	// handshakeTimeout bounds each step of getting to know a peer.
	handshakeTimeout = 5 * time.Second
	// closeTimeout bounds how long Close tries to say goodbye: a socket whose
	// network card is gone may block its writers.
	closeTimeout = 500 * time.Millisecond

	alpn = "achbridge/1"
	// welcomeByte opens the control stream in each direction, see the package
	// comment of transport. Anything else is refused.
	welcomeByte = 0x01
	// serverSuffix follows the name of the network in a ClientHello's server name.
	serverSuffix = ".achbridge"
)

// leavingWord is the reason that a peer gets that dials after Leave.
const leavingWord = "the daemon is leaving"

// quicPacket is the size of the packets we send, in bytes of UDP payload: what IPv6
// carries everywhere (RFC 8200 section 5), 1280 bytes with its header and UDP's.
const quicPacket = 1232

// leastDatagram is what a datagram holds at least, in bytes, over QUIC and SCTP alike: QUIC's
// packets have 1200 bytes or more, and SCTP's on the smallest path leave 472.
const leastDatagram = 472

// maxStreams is how many streams of a peer's may be open in a session. One is
// open from OpenStream until its reader has seen the end or has stopped it.
const maxStreams = 256

// The flow-control windows, in bytes. One stream holds at most streamWindow of
// connectionWindow when nobody reads it, so that some twenty such streams do not
// stop the others, the control stream among them (quic-go makes room only when a
// quarter of a window has been read, so they must leave as much).
const (
	streamWindow     = 128 << 10
	connectionWindow = 4 << 20
)

// quicTLS returns what both sides of a handshake have in common. The standard
// verification, which looks at dates and names, gives way to trust.Member.
func quicTLS(member func() *trust.Member) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		NextProtos:     []string{alpn},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return member().Certificate() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return member().Certificate()
		},
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			_, err := member().Verify(cs.PeerCertificates)
			if err != nil {
				err = fmt.Errorf("%w%.0w", err, tls.AlertError(alertOf(err)))
			}
			return err
		},
	}
}
