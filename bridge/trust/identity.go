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

// NodeID identifies a node for as long as its state directory lives. Host names
// are for people and may repeat; node ids do not. The zero NodeID is no node.
type NodeID [16]byte

// String returns 32 hexadecimal digits.
func (n NodeID) String() string { return hex.EncodeToString(n[:]) }

// Less reports whether n is the lower one of two ids.
func (n NodeID) Less(o NodeID) bool { return bytes.Compare(n[:], o[:]) < 0 }

// ParseNodeID parses what String returns.
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

// Peer is the identity that the other end of a session has proved. With one network key for
// all hosts it has proved only its membership; it may claim any name.
type Peer struct {
	Node NodeID
	Host string
}

// A certificate names its holder's host as common name and, under a shared key, its node as the one
// URI among the alternative names; the issuer's common name tells the network.
const (
	nodeScheme   = "achbridge"
	nodePrefix   = "node:"
	issuerPrefix = "achbridge "
	maxHost      = 63
)

// nodeURI is how a certificate spells a node id: achbridge:node:HEX.
func nodeURI(n NodeID) *url.URL {
	return &url.URL{Scheme: nodeScheme, Opaque: nodePrefix + n.String()}
}

// peerOf reads the identity from a certificate. It does not verify anything.
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

// Claim is what a refused certificate says about its holder: good for a log line
// and nothing else. Fields that are absent or malformed are empty.
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

// NetworkOf is the network whose key or authority signed the certificates of a member.
func NetworkOf(proof []*x509.Certificate) string {
	if len(proof) == 0 {
		return ""
	}
	return claimOf(proof[0]).Network
}

// IsNetwork reports whether s is spelled like Key.Network.
func IsNetwork(s string) bool {
	return len(s) == networkDigits && strings.Trim(s, "0123456789abcdef") == ""
}

// CheckHost refuses host names that could not stand in HOST/CHANNEL, would spoil a
// terminal or a log, or look like another name there.
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

// unseen reports whether r is invisible, so that two names may look the same, or moves the
// text beside it: controls, marks of direction, joiners, fillers.
func unseen(r rune) bool {
	const brailleBlank = 0x2800
	return !unicode.IsPrint(r) || r == utf8.RuneError || r == brailleBlank ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
