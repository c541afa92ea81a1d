package transport

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// ErrWrongKey says that the peer holds another network key, or none.
var ErrWrongKey = errors.New("peer has another network key")

// ErrSelf says that the peer has our own node id: we reached ourselves, or a host
// whose state directory was copied from ours.
var ErrSelf = errors.New("peer has our own node id")

var (
	errNoCertificate  = errors.New("peer showed no certificate")
	errBadCertificate = errors.New("peer's certificate is not one of a node")
)

const networkDigits = 8

// trust is one node's standing in its network: its own certificate, and the means
// to tell members from strangers. It is immutable: what changes it makes another.
type trust struct {
	self     Peer
	networks []string // ours first
	anchor
}

// anchor is what trust rests on.
type anchor interface {
	// certificate is what this node shows.
	certificate() (*tls.Certificate, error)
	// identify tells who the holder of a presented chain of at least one is. Whoever
	// our authority did not sign gives ErrWrongKey.
	identify(chain []*x509.Certificate) (Peer, error)
	// stands tells why the holder of a chain that was identified once is no longer
	// trusted, nil as long as it is.
	stands(chain []*x509.Certificate) error
}

func newTrust(key Key, self Peer, revoked *Revocations) (*trust, error) {
	t := &trust{self: self, networks: key.Networks()}
	if h := key.host(); h != nil {
		t.anchor = newHostAnchor(h, revoked)
		return t, nil
	}
	var err error
	if t.anchor, err = newSharedAnchor(key, self); err != nil {
		return nil, err
	}
	return t, nil
}

// network is the one whose authority signs for us.
func (t *trust) network() string { return t.networks[0] }

// verify tells who the holder of a presented chain is, or gives a *refusal.
func (t *trust) verify(chain []*x509.Certificate) (Peer, error) {
	if len(chain) == 0 {
		return Peer{}, errNoCertificate
	}
	peer, err := t.identify(chain)
	if err != nil {
		return Peer{}, &refusal{claim: claimOf(chain[0]), err: err}
	}
	return peer, nil
}

// checkUsage insists on what a session certificate of ours is, so that one made by
// a member for another purpose is not taken for a node's.
func checkUsage(cert *x509.Certificate) error {
	_, isEd25519 := cert.PublicKey.(ed25519.PublicKey)
	switch {
	case !isEd25519,
		cert.IsCA,
		cert.KeyUsage != x509.KeyUsageDigitalSignature,
		!slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth),
		!slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth),
		len(cert.UnhandledCriticalExtensions) != 0:
		return errBadCertificate
	}
	return nil
}

// refusal is why a certificate was refused, and whose it claims to be.
type refusal struct {
	claim claim
	err   error
}

func (r *refusal) Error() string {
	if r.claim.host == "" {
		return r.err.Error()
	}
	return fmt.Sprintf("%v (it calls itself %q)", r.err, r.claim.host)
}

func (r *refusal) Unwrap() error { return r.err }

// derive yields n bytes for one purpose by HKDF-SHA256 (RFC 5869).
func derive(secret []byte, purpose string, n int) []byte {
	b, err := hkdf.Key(sha256.New, secret, nil, purpose, n)
	if err != nil {
		panic(err) // n is far below the limit of 255 hashes
	}
	return b
}

func publicOf(private ed25519.PrivateKey) ed25519.PublicKey {
	return private.Public().(ed25519.PublicKey)
}

func networkOf(authority ed25519.PublicKey) string {
	sum := sha256.Sum256(authority)
	return hex.EncodeToString(sum[:networkDigits/2])
}
