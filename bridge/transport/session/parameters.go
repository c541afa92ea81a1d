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
	// HandshakeTimeout is the time limit of each step of a handshake.
	HandshakeTimeout = 5 * time.Second
	// CloseTimeout is the longest time for which Close tries to send a goodbye. A socket whose
	// network card was removed may block its writers.
	CloseTimeout = 500 * time.Millisecond

	ALPN = "achbridge/1"
	// WelcomeByte opens the control stream in each direction, see the package
	// comment of transport. Anything else is refused.
	WelcomeByte  = 0x01
	serverSuffix = ".achbridge"
)

// ServerName returns the server name for a network in a ClientHello. The other side logs it. It
// is not encrypted, but discovery also announces the network in plaintext.
func ServerName(network string) string { return network + serverSuffix }

// NamedNetwork returns the network in a server name, or "" if there is none.
func NamedNetwork(serverName string) string {
	network, named := strings.CutSuffix(serverName, serverSuffix)
	if !named || !trust.IsNetwork(network) {
		return ""
	}
	return network
}

// LeavingReason is the reason that is sent to peers that dial after Leave.
const LeavingReason = "the daemon is leaving"

// PacketSize is the size of our packets, in bytes of UDP payload. With the UDP and IPv6 headers
// that is 1280 bytes, which every IPv6 path carries (RFC 8200 section 5).
const PacketSize = 1232

// MaxStreams is the maximum number of streams that a peer may have open in a session. A stream is open from
// OpenStream until its reader has read to the end or has stopped it.
const MaxStreams = 256

// DatagramQueue is the maximum number of datagrams of a session that wait to be received, the same number as over QUIC.
const DatagramQueue = 128

// The flow-control windows, in bytes. A stream that is not read uses at most StreamWindow of
// ConnectionWindow. So about twenty such streams do not block the others, including the control
// stream. They must leave a quarter of the window free, since quic-go updates a window only
// after a quarter of it has been read.
const (
	StreamWindow     = 128 << 10
	ConnectionWindow = 4 << 20
)

// TLSConfig returns the common TLS configuration of both sides of a handshake. trust.Member
// replaces the standard verification, which checks dates and names.
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
