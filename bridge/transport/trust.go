package transport

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"time"
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
// to tell members from strangers. It does not keep the network key. Immutable.
type trust struct {
	self        Peer
	network     string
	authority   ed25519.PublicKey
	certificate tls.Certificate
}

func newTrust(key Key, self Peer) (*trust, error) {
	authority := key.authority()
	t := &trust{self: self, network: networkOf(authority), authority: authority.Public().(ed25519.PublicKey)}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial.Add(serial, big.NewInt(1)),
		Subject:               pkix.Name{CommonName: self.Host},
		URIs:                  []*url.URL{nodeURI(self.Node)},
		NotBefore:             time.Unix(0, 0).UTC(), // dates carry no meaning here
		NotAfter:              time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	issuer := &x509.Certificate{Subject: pkix.Name{CommonName: issuerPrefix + t.network}}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, public, authority)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	t.certificate = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
	return t, nil
}

// verify tells who the holder of a presented chain is. Whoever our authority did
// not sign gives ErrWrongKey, inside a *refusal.
func (t *trust) verify(chain []*x509.Certificate) (Peer, error) {
	if len(chain) == 0 {
		return Peer{}, errNoCertificate
	}
	cert := chain[0]
	if cert.SignatureAlgorithm != x509.PureEd25519 || !ed25519.Verify(t.authority, cert.RawTBSCertificate, cert.Signature) {
		return Peer{}, &refusal{claim: claimOf(cert), err: ErrWrongKey}
	}
	if err := checkUsage(chain); err != nil {
		return Peer{}, &refusal{claim: claimOf(cert), err: err}
	}
	peer, err := peerOf(cert)
	if err != nil {
		return Peer{}, &refusal{claim: claimOf(cert), err: err}
	}
	return peer, nil
}

// checkUsage insists on exactly what newTrust issues, so that a certificate made
// by a member for another purpose is not taken for a node's.
func checkUsage(chain []*x509.Certificate) error {
	cert := chain[0]
	_, isEd25519 := cert.PublicKey.(ed25519.PublicKey)
	switch {
	case len(chain) != 1,
		!isEd25519,
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

// authority derives the network's certificate authority.
func (k Key) authority() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(k.derive("achbridge/1 authority", ed25519.SeedSize))
}

// derive yields n bytes for one purpose by HKDF-SHA256 (RFC 5869).
func (k Key) derive(purpose string, n int) []byte {
	b, err := hkdf.Key(sha256.New, k.secret(), nil, purpose, n)
	if err != nil {
		panic(err) // n is far below the limit of 255 hashes
	}
	return b
}

func networkOf(authority ed25519.PrivateKey) string {
	sum := sha256.Sum256(authority.Public().(ed25519.PublicKey))
	return hex.EncodeToString(sum[:networkDigits/2])
}
