package trust

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Revocations is a numbered list of the certificates that an authority has revoked, a CRL (RFC
// 5280 section 5). A list replaces all lists with lower numbers. It is immutable.
type Revocations struct {
	list    *x509.RevocationList
	serials map[string]bool
}

// maxRevocations is the largest size of a list, in bytes: about 1200 certificates.
const maxRevocations = 64 << 10

var (
	errRevocations = errors.New("not a list of revocations")
	errForged      = errors.New("list of revocations: not signed by our authority")
	errNoAuthority = errors.New("list of revocations: this network has a shared key and no authority")
)

// Revoke returns a signed list with this number. serials are the serial numbers of all revoked
// certificates, in the form of Key.Serial.
func (a Authority) Revoke(number uint64, serials []string, now time.Time) (*Revocations, error) {
	template := &x509.RevocationList{
		Number:     new(big.Int).SetUint64(number),
		ThisUpdate: now,
		NextUpdate: a.certificate.NotAfter, // a list does not expire: a higher number replaces it
	}
	for _, s := range serials {
		serial, ok := new(big.Int).SetString(s, 16)
		if !ok {
			return nil, fmt.Errorf("serial number %q: want hexadecimal digits", s)
		}
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: serial, RevocationTime: now})
	}
	der, err := x509.CreateRevocationList(rand.Reader, template, a.certificate, a.private())
	if err != nil {
		return nil, fmt.Errorf("list of revocations: %w", err)
	}
	return DecodeRevocations(der)
}

// ParseRevocations parses the text of a file with a list. It does not check the signature.
func ParseRevocations(text string) (*Revocations, error) {
	blocks, ok := decodeBlocks(text, blockRevocations)
	if !ok {
		return nil, errRevocations
	}
	return DecodeRevocations(blocks[0])
}

// DecodeRevocations parses the result of Bytes. It does not check the signature.
func DecodeRevocations(der []byte) (*Revocations, error) {
	if len(der) > maxRevocations {
		return nil, fmt.Errorf("list of revocations: %d bytes, at most %d", len(der), maxRevocations)
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil || list.Number == nil || !list.Number.IsUint64() {
		return nil, errRevocations
	}
	r := &Revocations{list: list, serials: make(map[string]bool)}
	for _, e := range list.RevokedCertificateEntries {
		r.serials[e.SerialNumber.Text(16)] = true
	}
	return r, nil
}

// Number returns the number of the list, or 0 for a nil list. The newer of two lists has the
// higher number.
func (r *Revocations) Number() uint64 {
	if r == nil {
		return 0
	}
	return r.list.Number.Uint64()
}

// Len returns the number of revoked certificates in the list.
func (r *Revocations) Len() int { return len(r.serials) }

// Bytes returns the list in the form that nodes send to each other.
func (r *Revocations) Bytes() []byte { return r.list.Raw }

// Text returns the content of a file with the list.
func (r *Revocations) Text() string { return encodeBlock(blockRevocations, r.list.Raw) }

// Has reports whether the certificate with that serial number is revoked.
func (r *Revocations) Has(serial string) bool { return r != nil && r.serials[serial] }

// signedBy reports whether the authority has signed r. It returns true for a nil list.
func (r *Revocations) signedBy(authority *x509.Certificate) bool {
	return r == nil || r.list.CheckSignatureFrom(authority) == nil
}
