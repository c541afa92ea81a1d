package transport

import (
	"errors"
	"fmt"

	"achbridge/bridge/trust"
)

// What a peer is told whose certificate is refused: an alert of TLS (RFC 8446 section
// 6.2). The libraries would say bad_certificate, whatever is wrong with it.
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

// toldBy is what an alert of the peer says about our certificate, nil if nothing.
// Nobody has signed it when it comes from a peer that does not know us.
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
