package trust

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"

	"achbridge/bridge/secret"
)

// Authority issues and revokes the certificates of a network's hosts. Like a Key it never
// prints its secret.
type Authority struct {
	certificate *x509.Certificate
	private     func() ed25519.PrivateKey
}

const (
	authorityYears = 30
	hostYears      = 1
	// slack is the time by which a certificate is valid before it is issued, to allow for
	// different clocks.
	slack = time.Hour
)

// NewAuthority makes a new authority.
func NewAuthority(now time.Time) (Authority, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Authority{}, fmt.Errorf("authority: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return Authority{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "achbridge authority " + networkOf(public)},
		NotBefore:             now.Add(-slack),
		NotAfter:              now.AddDate(authorityYears, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		MaxPathLen:            1,
		BasicConstraintsValid: true,
	}
	cert, err := create(template, template, public, private)
	return Authority{certificate: cert, private: func() ed25519.PrivateKey { return private }}, err
}

// create issues a certificate and parses it, so that it never returns one that cannot be
// parsed.
func create(template, issuer *x509.Certificate, public ed25519.PublicKey, by ed25519.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, public, by)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// ReadAuthority reads the authority from the file at path. The rules of ReadKey apply.
func ReadAuthority(path string) (Authority, error) {
	text, err := secret.Read("authority", path)
	if err != nil {
		return Authority{}, err
	}
	a, err := parseAuthority(text)
	if err != nil {
		return Authority{}, fmt.Errorf("authority %s: %w", path, err)
	}
	return a, nil
}

// Write stores the authority at path. The rules of Key.Write apply.
func (a Authority) Write(path string) error {
	return secret.Write("authority", path, a.text(), nil)
}

// Network returns the name of the network of the authority's hosts, like Key.Network.
func (a Authority) Network() string { return networkOf(a.public()) }

func (a Authority) public() ed25519.PublicKey { return a.certificate.PublicKey.(ed25519.PublicKey) }

// Issue returns a new key for a host. Its certificate is valid for one year and only for that
// host name. The host signs its own session certificates with the key.
func (a Authority) Issue(host string, now time.Time) (Key, error) {
	if err := checkIssuable(host); err != nil {
		return Key{}, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("certificate: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return Key{}, err
	}
	cert, err := create(a.hostTemplate(host, serial, now), a.certificate, public, a.private())
	if err != nil {
		return Key{}, err
	}
	return hostKeyOf(hostKey{authority: a.certificate, certificate: cert, private: private})
}

func (a Authority) hostTemplate(host string, serial *big.Int, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial,
		// The common name contains the network; it is the issuer's name in session certificates.
		Subject:                     pkix.Name{OrganizationalUnit: []string{host}, CommonName: issuerPrefix + a.Network()},
		NotBefore:                   now.Add(-slack),
		NotAfter:                    now.AddDate(hostYears, 0, 0),
		KeyUsage:                    x509.KeyUsageCertSign,
		IsCA:                        true,
		MaxPathLenZero:              true,
		BasicConstraintsValid:       true,
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         []string{dnsOf(host)},
	}
}

// dnsOf returns the DNS name that stands for a host in certificates.
func dnsOf(host string) string { return host + ".host.achbridge" }

var issuable = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// checkIssuable returns an error for host names that a certificate cannot contain, for
// example with two consecutive dots or a dot at an end.
func checkIssuable(host string) error {
	if len(host) > maxHost || !issuable.MatchString(host) {
		return fmt.Errorf("host name %.70q: want 1 to %d of A-Z a-z 0-9 - _, with single dots between", host, maxHost)
	}
	return nil
}

// hostNode returns the node id of a host that has a certificate. It is derived from the name,
// so that no host can take the id of another.
func hostNode(authority ed25519.PublicKey, host string) (n NodeID) {
	h := sha256.New()
	h.Write([]byte("achbridge/1 node "))
	h.Write(authority)
	h.Write([]byte(host))
	copy(n[:], h.Sum(nil))
	return n
}

// Types of the PEM blocks (RFC 7468) in files.
const (
	blockCertificate = "CERTIFICATE"
	blockPrivate     = "PRIVATE KEY"
	blockMembers     = "ACHBRIDGE MEMBERS" // only in older files: a secret that is no longer used
	blockRevocations = "X509 CRL"
)

func (a Authority) text() string {
	return encodeBlock(blockCertificate, a.certificate.Raw) + encodePrivate(a.private())
}

var errAuthorityText = errors.New("not an authority: want the file that `achbridge ca init` has written")

// parseAuthority parses the text of an authority's file. Its errors never contain the text.
func parseAuthority(text string) (Authority, error) {
	blocks, ok := decodeBlocks(text, blockCertificate, blockPrivate)
	if !ok {
		return Authority{}, errAuthorityText
	}
	cert, ok1 := parseCertificate(blocks[0])
	private, ok2 := parsePrivate(blocks[1])
	if !ok1 || !ok2 || !publicOf(private).Equal(cert.PublicKey) || cert.CheckSignatureFrom(cert) != nil {
		return Authority{}, errAuthorityText
	}
	return Authority{certificate: cert, private: func() ed25519.PrivateKey { return private }}, nil
}

func encodeBlock(kind string, b []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
}

// decodeBlocks returns the contents of the PEM blocks of text. It returns false unless text
// has exactly blocks of these types.
func decodeBlocks(text string, kinds ...string) ([][]byte, bool) {
	var blocks [][]byte
	rest := []byte(text)
	for _, kind := range kinds {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != kind || len(block.Headers) != 0 {
			return nil, false
		}
		blocks = append(blocks, block.Bytes)
	}
	return blocks, strings.TrimSpace(string(rest)) == ""
}

// parseCertificate parses a certificate. It accepts only Ed25519 keys.
func parseCertificate(der []byte) (*x509.Certificate, bool) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, false
	}
	_, ok := cert.PublicKey.(ed25519.PublicKey)
	return cert, ok
}

func encodePrivate(private ed25519.PrivateKey) string {
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err) // it is an Ed25519 key
	}
	return encodeBlock(blockPrivate, der)
}

func parsePrivate(der []byte) (ed25519.PrivateKey, bool) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	private, ok := key.(ed25519.PrivateKey)
	return private, err == nil && ok
}
