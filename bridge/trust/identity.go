package trust

import (
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NodeID identifies a node for the lifetime of its state directory. Host names are for
// people and need not be unique; node ids are unique. The zero NodeID is no node.
type NodeID [16]byte

// String returns 32 hexadecimal digits.
func (n NodeID) String() string { return hex.EncodeToString(n[:]) }

// Less reports whether n is lower than o.
func (n NodeID) Less(o NodeID) bool { return bytes.Compare(n[:], o[:]) < 0 }

// ParseNodeID parses the result of String.
func ParseNodeID(s string) (NodeID, error) {
	var n NodeID
	if len(s) != hex.EncodedLen(len(n)) || strings.ToLower(s) != s {
		return NodeID{}, fmt.Errorf("node id %q: want 32 lower-case hexadecimal digits", s)
	}
	if _, err := hex.Decode(n[:], []byte(s)); err != nil {
		return NodeID{}, fmt.Errorf("node id %q: want 32 lower-case hexadecimal digits", s)
	}
	if n == (NodeID{}) {
		return NodeID{}, errors.New("node id: all zero")
	}
	return n, nil
}

// Peer is the identity that the other end of a session has proved. With a shared network key
// the other end has proved only its membership, and may claim any name.
type Peer struct {
	Node NodeID
	Host string
}

// A session certificate has its holder's host as common name. Under a shared key it has the
// node id as the only URI among the alternative names. The issuer's common name contains the
// network.
const (
	nodeScheme   = "achbridge"
	nodePrefix   = "node:"
	issuerPrefix = "achbridge "
	maxHost      = 63
)

// nodeURI returns the URI for a node id in certificates: achbridge:node:HEX.
func nodeURI(n NodeID) *url.URL {
	return &url.URL{Scheme: nodeScheme, Opaque: nodePrefix + n.String()}
}

// peerOf returns the identity in a certificate. It does not verify the certificate.
func peerOf(cert *x509.Certificate) (Peer, error) {
	if err := CheckHost(cert.Subject.CommonName); err != nil {
		return Peer{}, err
	}
	if len(cert.URIs) != 1 {
		return Peer{}, fmt.Errorf("certificate: %d URIs, want one node id", len(cert.URIs))
	}
	digits, ok := strings.CutPrefix(cert.URIs[0].Opaque, nodePrefix)
	if !ok || cert.URIs[0].Scheme != nodeScheme {
		return Peer{}, errors.New("certificate: its URI is no node id")
	}
	node, err := ParseNodeID(digits)
	if err != nil {
		return Peer{}, fmt.Errorf("certificate: %w", err)
	}
	return Peer{Node: node, Host: cert.Subject.CommonName}, nil
}

// Claim is the unverified identity in a refused certificate. Use it only in log lines. Fields
// that are absent or malformed are empty.
type Claim struct{ Host, Network string }

func claimOf(cert *x509.Certificate) Claim {
	var c Claim
	if host := cert.Subject.CommonName; CheckHost(host) == nil {
		c.Host = host
	}
	if network, ok := strings.CutPrefix(cert.Issuer.CommonName, issuerPrefix); ok && IsNetwork(network) {
		c.Network = network
	}
	return c
}

// NetworkOf returns the network whose key or authority signed the certificates of a member.
func NetworkOf(proof []*x509.Certificate) string {
	if len(proof) == 0 {
		return ""
	}
	return claimOf(proof[0]).Network
}

// IsNetwork reports whether s has the form of a Key.Network.
func IsNetwork(s string) bool {
	return len(s) == networkDigits && strings.Trim(s, "0123456789abcdef") == ""
}

// CheckHost returns an error for host names that are impossible in HOST/CHANNEL, would garble
// a terminal or a log, or could be mistaken there for another name.
func CheckHost(host string) error {
	switch {
	case host == "":
		return errors.New("host name: empty")
	case len(host) > maxHost:
		return fmt.Errorf("host name %.20q...: %d bytes, at most %d", host, len(host), maxHost)
	case !utf8.ValidString(host):
		return fmt.Errorf("host name %q: not valid UTF-8", host)
	case strings.Contains(host, "/"):
		return fmt.Errorf("host name %q: must not contain '/'", host)
	case strings.ContainsFunc(host, unseen):
		return fmt.Errorf("host name %+q: must not contain characters that are invisible or have no width", host)
	case strings.TrimSpace(host) != host:
		return fmt.Errorf("host name %q: must not begin or end with a space", host)
	}
	return nil
}

// unseen reports whether r is invisible, so that two names may look the same, or moves
// adjacent text: controls, direction marks, joiners, fillers.
func unseen(r rune) bool {
	const brailleBlank = 0x2800
	return !unicode.IsPrint(r) || r == utf8.RuneError || r == brailleBlank ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
