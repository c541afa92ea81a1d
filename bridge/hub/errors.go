package hub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"
)

var (
	// ErrNotConnected means that there is no connection to the hub now.
	ErrNotConnected = errors.New("not connected to the hub")
	// ErrRefused means that the hub does not know the credentials, or no longer accepts them.
	ErrRefused = errors.New("the hub refuses the credentials")
	// ErrCertificate means that the server is not the hub of the credentials.
	ErrCertificate = errors.New("the certificate is not the hub's")
	// errNoHost means that the host is not connected to the hub.
	errNoHost = errors.New("not connected to the hub")
	// ErrTooLarge means that a frame exceeds the hub's message size.
	ErrTooLarge = errors.New("larger than the hub takes")
	// errBroken means that a byte stream ended because a message was lost, duplicated or forged.
	errBroken = errors.New("byte stream broken")
)

// errNotConnected wraps ErrNotConnected, with the reason if it is known.
func errNotConnected(reason error) error {
	switch {
	case reason == nil, errors.Is(reason, ErrNotConnected):
		return fmt.Errorf("hub: %w", ErrNotConnected)
	default:
		return fmt.Errorf("hub: %w: %w", ErrNotConnected, reason)
	}
}

// explain turns the reason why a hub at address did not accept a connection into one sentence with
// a fix.
func explain(c Credentials, address string, err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var lookup *net.DNSError
	switch {
	case errors.Is(err, ErrCertificate):
		return fmt.Errorf("hub %s: %w: the hub was made again, or another server answers; copy the credentials file of %s again from the hub", address, ErrCertificate, c.Host)
	case errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid):
		return fmt.Errorf("hub %s: %w: %w; put its hash into the credentials file, as achbridge hub add does", address, ErrCertificate, err)
	case refused(err):
		return fmt.Errorf("hub %s: %w of %s: they were removed or are of another hub; run achbridge hub add %s there and copy the file", address, ErrRefused, c.Host, c.Host)
	case errors.As(err, &record):
		return fmt.Errorf("hub %s: no TLS is spoken there", address)
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET):
		return fmt.Errorf("hub %s: it closed the connection", address)
	case errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("hub %s: nothing listens there: see that the hub runs", address)
	case errors.As(err, &lookup):
		return fmt.Errorf("hub %s: no address is known for this name", address)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("hub %s: no answer: see that it runs, and that TCP to it passes the firewalls", address)
	default:
		return fmt.Errorf("hub %s: %w", address, err)
	}
}

// refused reports whether the hub refused the credentials. A server without any host does not
// support keys at all.
func refused(err error) bool {
	for _, e := range []error{nats.ErrAuthorization, nats.ErrAuthRevoked, nats.ErrAuthExpired, nats.ErrAccountAuthExpired, nats.ErrNkeysNotSupported} {
		if errors.Is(err, e) {
			return true
		}
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "authorization violation") || strings.Contains(text, "authentication") && strings.Contains(text, "revoked")
}
