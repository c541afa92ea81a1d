package trust

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

var (
	errNoCertificate  = errors.New("peer showed no certificate")
	errBadCertificate = errors.New("peer's certificate is not one of a node")
)

const networkDigits = 8

// Member is one node's standing in its network: the certificate it shows, and the means
// to tell members from strangers. It is immutable, and safe for concurrent use.
type Member struct {
	self     Peer
	networks []string // ours first
	anchor   anchor
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

// NewMember makes the member self by its key. Revoked is the list that counts, nil for
// none; one that the key's authority has not signed is ignored.
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

// Self returns who this node is.
func (m *Member) Self() Peer { return m.self }

// Network names the network whose authority signs for this node.
func (m *Member) Network() string { return m.networks[0] }

// Certificate returns what this node shows to peers. With an authority the node signs
// a new one twice a day.
func (m *Member) Certificate() (*tls.Certificate, error) { return m.anchor.certificate() }

// Verify returns who the holder of a presented chain is. A certificate that it refuses
// gives a *Refusal, which wraps ErrWrongKey for a stranger, or a *CertificateError.
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

// maxChain is the longest chain that a member shows.
const maxChain = 2

// ParseChain parses the certificates that a peer shows. It refuses chains longer than
// any member shows.
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

// Stands returns why the holder of a chain that Verify once accepted is not trusted any
// more: ErrWrongKey, or a *CertificateError. It returns nil as long as the holder is trusted.
func (m *Member) Stands(chain []*x509.Certificate) error { return m.anchor.stands(chain) }

// NamesBind reports whether certificates prove the names and node ids of peers. Under a
// shared key they are claims of members.
func (m *Member) NamesBind() bool {
	_, bind := m.anchor.(*hostAnchor)
	return bind
}

// Revocations returns the list that counts, nil if there is none.
func (m *Member) Revocations() *Revocations {
	if a, ok := m.anchor.(*hostAnchor); ok {
		return a.revoked
	}
	return nil
}

// IsRevoked reports whether the list that counts has this node's own certificate.
func (m *Member) IsRevoked() bool {
	a, ok := m.anchor.(*hostAnchor)
	return ok && a.revoked.Has(serialOf(a.key.certificate))
}

// WithRevocations returns the same member with list, or m itself if list is not newer
// than the one that counts. A list that the member's authority has not signed is an error.
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

// Refusal is why a certificate was refused, and what it says about its holder.
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
