package trust

import (
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// hostKey is the key of one host of a network that has an authority.
type hostKey struct {
	authority   *x509.Certificate
	certificate *x509.Certificate  // certificate of the host, signed by the authority
	private     ed25519.PrivateKey // private key of certificate
	host        string
	node        NodeID
}

var errHostText = errors.New("not a host's key: want the file that `achbridge ca issue` has written")

// hostKeyOf returns the Key for h. It checks that the certificates and the private key match,
// and sets the host and the node id.
func hostKeyOf(h hostKey) (Key, error) {
	host, ok := hostOf(h.certificate)
	if !ok || h.certificate.CheckSignatureFrom(h.authority) != nil ||
		!publicOf(h.private).Equal(h.certificate.PublicKey) {
		return Key{}, errHostText
	}
	h.host, h.node = host, hostNode(h.authority.PublicKey.(ed25519.PublicKey), host)
	return keyOf(keyring{host: &h}), nil
}

// serialOf returns the serial number of a certificate, as in lists of revocations.
func serialOf(cert *x509.Certificate) string { return cert.SerialNumber.Text(16) }

// hostOf returns the host that a certificate is issued for. ok is false unless it is issued
// for exactly one.
func hostOf(cert *x509.Certificate) (host string, ok bool) {
	if !cert.PermittedDNSDomainsCritical || len(cert.PermittedDNSDomains) != 1 {
		return "", false
	}
	domain := cert.PermittedDNSDomains[0]
	host = strings.TrimSuffix(domain, dnsOf(""))
	return host, domain == dnsOf(host) && checkIssuable(host) == nil
}

func (h *hostKey) text() string {
	return encodeBlock(blockCertificate, h.certificate.Raw) + encodeBlock(blockCertificate, h.authority.Raw) +
		encodePrivate(h.private)
}

// parseHostKey parses the text of a host's key. Its errors never contain the text.
func parseHostKey(text string) (Key, error) {
	blocks, ok := decodeBlocks(text, blockCertificate, blockCertificate, blockPrivate)
	if !ok {
		blocks, ok = decodeBlocks(text, blockCertificate, blockCertificate, blockPrivate, blockMembers)
	}
	if !ok {
		return Key{}, errHostText
	}
	certificate, ok1 := parseCertificate(blocks[0])
	authority, ok2 := parseCertificate(blocks[1])
	private, ok3 := parsePrivate(blocks[2])
	if !ok1 || !ok2 || !ok3 {
		return Key{}, errHostText
	}
	return hostKeyOf(hostKey{authority: authority, certificate: certificate, private: private})
}

// host returns the host key in k, or nil if k is not the key of one host.
func (k Key) host() *hostKey {
	if k.keyring == nil {
		return nil
	}
	return k.keyring().host
}

// Host returns the name of the host that k was issued for, or "" if any host may use k.
func (k Key) Host() string {
	if h := k.host(); h != nil {
		return h.host
	}
	return ""
}

// Node returns the node id of the holder of k, or zero if the holder chooses it.
func (k Key) Node() NodeID {
	if h := k.host(); h != nil {
		return h.node
	}
	return NodeID{}
}

// Fits returns an error if a node with key k may not have the identity self.
func (k Key) Fits(self Peer) error {
	h := k.host()
	switch {
	case h == nil:
		return nil
	case self.Host != h.host:
		return fmt.Errorf("host name %q: the certificate is for %q", self.Host, h.host)
	case self.Node != h.node:
		return fmt.Errorf("node id %v: that of the certificate is %v", self.Node, h.node)
	}
	return nil
}

// Ends returns when the host's certificate expires, or the zero time if k has none.
func (k Key) Ends() time.Time {
	if h := k.host(); h != nil {
		return h.certificate.NotAfter
	}
	return time.Time{}
}

// Serial returns the serial number of the host's certificate in hexadecimal digits, or "" if
// k has none. Lists of revocations contain it.
func (k Key) Serial() string {
	if h := k.host(); h != nil {
		return serialOf(h.certificate)
	}
	return ""
}
