package session

import (
	"errors"
	"fmt"

	"achbridge/bridge/trust"
)

// TLS alerts (RFC 8446 section 6.2) that tell a peer why its certificate is refused. The
// libraries would always send bad_certificate.
const (
	AlertBad     = 42 // of another network, or not one of a node
	AlertRevoked = 44
	AlertExpired = 45
)

// AlertFor is the alert that tells why a certificate is refused.
func AlertFor(err error) byte {
	switch {
	case errors.Is(err, trust.ErrRevoked):
		return AlertRevoked
	case errors.Is(err, trust.ErrNotNow):
		return AlertExpired
	}
	return AlertBad
}

// ErrOurCertificate says that the peer refuses our certificate. Errors of trust without it are about the peer's.
var ErrOurCertificate = errors.New("our certificate was refused")

// AlertError is what an alert of the peer says about our certificate, nil if nothing. An alert
// of a peer that does not know us is not authenticated.
func AlertError(alert byte) error {
	switch alert {
	case AlertBad:
		return fmt.Errorf("%w: %w", ErrOurCertificate, trust.ErrWrongKey)
	case AlertRevoked:
		return fmt.Errorf("our %w, says the peer%.0w", trust.ErrRevoked, ErrOurCertificate)
	case AlertExpired:
		return fmt.Errorf("our %w, says the peer%.0w", trust.ErrNotNow, ErrOurCertificate)
	}
	return nil
}
