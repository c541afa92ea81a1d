package trust

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"time"
)

// sharedAnchor trusts all holders of our network keys. It does not store the keys themselves.
type sharedAnchor struct {
	own         tls.Certificate
	authorities []ed25519.PublicKey
}

func newSharedAnchor(key Key, self Peer) (*sharedAnchor, error) {
	a := &sharedAnchor{}
	secrets := key.keyring().secrets
	for _, secret := range secrets {
		a.authorities = append(a.authorities, publicOf(authorityOf(secret)))
	}
	template, err := sessionTemplate(self.Host)
	if err != nil {
		return nil, err
	}
	template.URIs = []*url.URL{nodeURI(self.Node)}
	template.NotBefore = time.Unix(0, 0).UTC() // dates are not checked
	template.NotAfter = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	issuer := &x509.Certificate{Subject: pkix.Name{CommonName: issuerPrefix + key.Network()}}
	a.own, err = issueSession(template, issuer, authorityOf(secrets[0]))
	return a, err
}

func (a *sharedAnchor) certificate() (*tls.Certificate, error) { return &a.own, nil }

func (a *sharedAnchor) identify(chain []*x509.Certificate) (Peer, error) {
	if err := a.stands(chain); err != nil {
		return Peer{}, err
	}
	if len(chain) != 1 {
		return Peer{}, errBadCertificate
	}
	if err := checkUsage(chain[0]); err != nil {
		return Peer{}, err
	}
	return peerOf(chain[0])
}

func (a *sharedAnchor) stands(chain []*x509.Certificate) error {
	cert := chain[0]
	signed := func(by ed25519.PublicKey) bool {
		return cert.SignatureAlgorithm == x509.PureEd25519 && ed25519.Verify(by, cert.RawTBSCertificate, cert.Signature)
	}
	if !slices.ContainsFunc(a.authorities, signed) {
		return ErrWrongKey
	}
	return nil
}

// sessionTemplate returns a certificate without dates, for use in session handshakes.
func sessionTemplate(host string) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: host},
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}, nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

// issueSession returns a certificate for a new key, signed by authority.
func issueSession(template, issuer *x509.Certificate, authority ed25519.PrivateKey) (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, public, authority)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}

// authorityOf derives the private key of a network key's certificate authority.
func authorityOf(secret []byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(derive(secret, "achbridge/1 authority", ed25519.SeedSize))
}
