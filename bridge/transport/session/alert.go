package session

import (
	"errors"
	"fmt"

	"achbridge/bridge/trust"
)

// TLS alerts (RFC 8446 section 6.2) that give a peer the reason why its certificate is refused.
// The libraries would always send bad_certificate.
const (
	AlertBad     = 42 // certificate of another network, or not of a node
	AlertRevoked = 44
	AlertExpired = 45
)

// AlertFor returns the alert for the error that a certificate is refused with.
func AlertFor(err error) byte {
	switch {
	case errors.Is(err, trust.ErrRevoked):
		return AlertRevoked
	case errors.Is(err, trust.ErrNotNow):
		return AlertExpired
	}
	return AlertBad
}

// ErrOurCertificate is returned when the peer refuses our certificate. Errors of trust without it are about the peer's.
var ErrOurCertificate = errors.New("our certificate was refused")

// AlertError returns the error that an alert of the peer reports about our certificate, or nil.
// An alert of a peer that has not authenticated us is itself not authenticated.
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
