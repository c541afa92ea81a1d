package transport

import (
	"errors"
	"fmt"

	"achbridge/bridge/trust"
)

// TLS alerts (RFC 8446 section 6.2) that tell a peer why its certificate is refused. The
// libraries would always send bad_certificate.
const (
	alertBad     = 42 // of another network, or not one of a node
	alertRevoked = 44
	alertExpired = 45
)

// alertOf is the alert that tells why a certificate is refused.
func alertOf(err error) byte {
	switch {
	case errors.Is(err, trust.ErrRevoked):
		return alertRevoked
	case errors.Is(err, trust.ErrNotNow):
		return alertExpired
	}
	return alertBad
}

// ErrOurCertificate says that the peer refuses our certificate. Errors of trust without it are about the peer's.
var ErrOurCertificate = errors.New("our certificate was refused")

// toldBy is what an alert of the peer says about our certificate, nil if nothing. An alert
// of a peer that does not know us is not authenticated.
func toldBy(alert byte) error {
	switch alert {
	case alertBad:
		return fmt.Errorf("%w: %w", ErrOurCertificate, trust.ErrWrongKey)
	case alertRevoked:
		return fmt.Errorf("our %w, says the peer%.0w", trust.ErrRevoked, ErrOurCertificate)
	case alertExpired:
		return fmt.Errorf("our %w, says the peer%.0w", trust.ErrNotNow, ErrOurCertificate)
	}
	return nil
}
