package trust

import (
	"crypto"
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

// ErrWrongKey is returned when the peer has another network key, another authority, or none.
var ErrWrongKey = errors.New("peer has another network key")

var (
	errNoCertificate  = errors.New("peer showed no certificate")
	errBadCertificate = errors.New("peer's certificate is not one of a node")
)

const networkDigits = 8

// Member is a node's membership in its network. It provides the certificate that the node
// presents, and verifies those of others. It is immutable and safe for concurrent use.
type Member struct {
	self     Peer
	networks []string // Key.Networks: that of this node first
	anchor   anchor
}

// anchor is the root of trust: a shared key or an authority.
type anchor interface {
	// certificate returns the certificate that this node presents.
	certificate() (*tls.Certificate, error)
	// identify returns the holder of a presented chain of one or more certificates. It returns
	// ErrWrongKey if our authority has not signed the chain.
	identify(chain []*x509.Certificate) (Peer, error)
	// stands returns nil while the holder of a chain that identify once accepted is still
	// trusted, else the reason.
	stands(chain []*x509.Certificate) error
}

// NewMember returns the member self with its key. revoked is the list of revocations in
// effect, nil if there is none. It is ignored unless the key's authority has signed it.
func NewMember(key Key, self Peer, revoked *Revocations) (*Member, error) {
	m := &Member{self: self, networks: key.Networks()}
	if h := key.host(); h != nil {
		m.anchor = newHostAnchor(h, revoked)
		return m, nil
	}
	var err error
	if m.anchor, err = newSharedAnchor(key, self); err != nil {
		return nil, err
	}
	return m, nil
}

// Self returns the identity of this node.
func (m *Member) Self() Peer { return m.self }

// Network returns the network whose authority signs for this node.
func (m *Member) Network() string { return m.networks[0] }

// Certificate returns the certificate that this node presents to peers. With an authority the
// node signs a new one about twice a day.
func (m *Member) Certificate() (*tls.Certificate, error) { return m.anchor.certificate() }

// Verify returns the identity of the holder of a presented chain. If it refuses the
// certificate it returns a *Refusal, which wraps ErrWrongKey for a host of another network,
// or a *CertificateError.
func (m *Member) Verify(chain []*x509.Certificate) (Peer, error) {
	if len(chain) == 0 {
		return Peer{}, errNoCertificate
	}
	peer, err := m.anchor.identify(chain)
	if err != nil {
		return Peer{}, &Refusal{Claim: claimOf(chain[0]), Err: err}
	}
	return peer, nil
}

// maxChain is the length of the longest chain that a member presents.
const maxChain = 2

// ParseChain parses the certificates that a peer presents. It refuses chains longer than any
// member presents.
func ParseChain(raw [][]byte) ([]*x509.Certificate, error) {
	if len(raw) > maxChain {
		return nil, errBadCertificate
	}
	var chain []*x509.Certificate
	for _, der := range raw {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, errBadCertificate
		}
		chain = append(chain, cert)
	}
	return chain, nil
}

// Stands returns nil while the holder of a chain that Verify once accepted is still trusted.
// Otherwise it returns ErrWrongKey or a *CertificateError.
func (m *Member) Stands(chain []*x509.Certificate) error { return m.anchor.stands(chain) }

// NamesBind reports whether certificates prove the names and node ids of peers. Under a
// shared key a member may claim any of them.
func (m *Member) NamesBind() bool {
	_, bind := m.anchor.(*hostAnchor)
	return bind
}

// Signer returns the key of this host's certificate, for signing data that others relay. It
// is nil under a shared key. Callers must sign with a context (RFC 8032 section 8.3), so that
// no signature is valid for another purpose.
func (m *Member) Signer() crypto.Signer {
	if a, ok := m.anchor.(*hostAnchor); ok {
		return a.key.private
	}
	return nil
}

// SignedBy returns the key that verifies signatures by the Signer of a chain's holder, or nil
// under a shared key. Verify must have accepted the chain.
func SignedBy(proof []*x509.Certificate) ed25519.PublicKey {
	if len(proof) != 2 {
		return nil
	}
	return proof[1].PublicKey.(ed25519.PublicKey)
}

// Revocations returns the list of revocations in effect, or nil if there is none.
func (m *Member) Revocations() *Revocations {
	if a, ok := m.anchor.(*hostAnchor); ok {
		return a.revoked
	}
	return nil
}

// IsRevoked reports whether the list in effect contains this node's own certificate.
func (m *Member) IsRevoked() bool {
	a, ok := m.anchor.(*hostAnchor)
	return ok && a.revoked.Has(serialOf(a.key.certificate))
}

// WithRevocations returns the same member with list, or m itself if list is not newer
// than the one in effect. A list that the member's authority has not signed is an error.
func (m *Member) WithRevocations(list *Revocations) (*Member, error) {
	a, ok := m.anchor.(*hostAnchor)
	switch {
	case !ok:
		return nil, errNoAuthority
	case list.Number() <= a.revoked.Number():
		return m, nil
	case !list.signedBy(a.key.authority):
		return nil, errForged
	}
	return &Member{self: m.self, networks: m.networks, anchor: a.revoking(list)}, nil
}

// checkUsage returns an error unless cert is a session certificate. So a certificate that a
// member issued for another purpose is not accepted as that of a node.
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

// Refusal is the error for a refused certificate: the reason, and the identity that the
// certificate claims.
type Refusal struct {
	Claim Claim
	Err   error
}

func (r *Refusal) Error() string {
	if r.Claim.Host == "" {
		return r.Err.Error()
	}
	return fmt.Sprintf("%v (it calls itself %q)", r.Err, r.Claim.Host)
}

func (r *Refusal) Unwrap() error { return r.Err }

// derive derives n bytes for one purpose from secret, by HKDF-SHA256 (RFC 5869).
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
