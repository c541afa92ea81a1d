package session

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"achbridge/bridge/trust"
)

// KeepAlive is the longest time between two packets from the peer of a session, or a quarter
// of the idle timeout if that is less.
const KeepAlive = 250 * time.Millisecond

const (
	// HandshakeTimeout bounds each step of getting to know a peer.
	HandshakeTimeout = 5 * time.Second
	// CloseTimeout bounds how long Close tries to say goodbye: a socket whose
	// network card is gone may block its writers.
	CloseTimeout = 500 * time.Millisecond

	ALPN = "achbridge/1"
	// WelcomeByte opens the control stream in each direction, see the package
	// comment of transport. Anything else is refused.
	WelcomeByte  = 0x01
	serverSuffix = ".achbridge"
)

// ServerName is the server name by which a ClientHello names a network, for the other side's log.
// Discovery announces the network in clear as well.
func ServerName(network string) string { return network + serverSuffix }

// NamedNetwork returns the network that a server name names, "" if none.
func NamedNetwork(serverName string) string {
	network, named := strings.CutSuffix(serverName, serverSuffix)
	if !named || !trust.IsNetwork(network) {
		return ""
	}
	return network
}

// LeavingReason is the reason that a peer gets that dials after Leave.
const LeavingReason = "the daemon is leaving"

// PacketSize is the size of the packets we send, in bytes of UDP payload: what IPv6
// carries everywhere (RFC 8200 section 5), 1280 bytes with its header and UDP's.
const PacketSize = 1232

// MaxStreams is how many streams of a peer's may be open in a session. One is
// open from OpenStream until its reader has seen the end or has stopped it.
const MaxStreams = 256

// The flow-control windows, in bytes. One stream holds at most StreamWindow of
// ConnectionWindow when nobody reads it, so that some twenty such streams do not
// stop the others, the control stream among them (quic-go makes room only when a
// quarter of a window has been read, so they must leave as much).
const (
	StreamWindow     = 128 << 10
	ConnectionWindow = 4 << 20
)

// TLSConfig returns what both sides of a handshake have in common. The standard
// verification, which looks at dates and names, gives way to trust.Member.
func TLSConfig(member func() *trust.Member) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		NextProtos:     []string{ALPN},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return member().Certificate() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return member().Certificate()
		},
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			_, err := member().Verify(cs.PeerCertificates)
			if err != nil {
				err = fmt.Errorf("%w%.0w", err, tls.AlertError(AlertFor(err)))
			}
			return err
		},
	}
}
