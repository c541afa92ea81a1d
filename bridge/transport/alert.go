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

// toldBy is what an alert of the peer says about our certificate, nil if nothing. An alert
// of a peer that does not know us is not authenticated.
func toldBy(alert byte) error {
	switch alert {
	case alertBad:
		return fmt.Errorf("our certificate was refused: %w", trust.ErrWrongKey)
	case alertRevoked:
		return fmt.Errorf("our %w, says the peer", trust.ErrRevoked)
	case alertExpired:
		return fmt.Errorf("our %w, says the peer", trust.ErrNotNow)
	}
	return nil
}
