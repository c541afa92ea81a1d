package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestCertificateNamesHostAndNode(t *testing.T) {
	key := NewKey()
	self := Peer{Node: nodeOf("robot"), Host: strings.Repeat("ü", 31)}
	mine, err := NewMember(key, self, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewMember(key, Peer{Node: nodeOf("pc"), Host: "pc"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cert := parseLeaf(t, shown(t, mine)[0])
	got, err := other.Verify([]*x509.Certificate{cert})
	if err != nil || got != self {
		t.Errorf("verify: got %v, %v, want %v", got, err, self)
	}
	if cert.NotBefore.Year() != 1970 || cert.NotAfter.Year() != 9999 {
		t.Errorf("dates: got %v to %v", cert.NotBefore, cert.NotAfter)
	}
	if len(shown(t, mine)[0]) > 1024 {
		t.Errorf("certificate: %d bytes, want what fits a packet", len(shown(t, mine)[0]))
	}
}

// nodeOf returns a node id that is unique for the host name.
func nodeOf(host string) NodeID {
	n := NodeID{0: 0xac}
	copy(n[1:], host)
	return n
}

func parseLeaf(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// Certificates that differ from those of NewMember are refused even if a member signed them.
func TestUnusualCertificatesAreRefused(t *testing.T) {
	key := NewKey()
	pc, err := NewMember(key, Peer{Node: nodeOf("pc"), Host: "pc"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	robot, err := NewMember(key, Peer{Node: nodeOf("robot"), Host: "robot"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	good := parseLeaf(t, shown(t, robot)[0])
	authority := authorityOf(key.keyring().secrets[0])
	uri := func(s string) []*url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return []*url.URL{u}
	}
	for name, change := range map[string]func(*x509.Certificate){
		"nothing":      func(c *x509.Certificate) {},
		"past":         func(c *x509.Certificate) { c.NotAfter = time.Unix(1, 0) },
		"future":       func(c *x509.Certificate) { c.NotBefore = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"no host":      func(c *x509.Certificate) { c.Subject = pkix.Name{} },
		"slash":        func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "a/b"} },
		"escape":       func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "a\x1b[2J"} },
		"long host":    func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: strings.Repeat("x", 64)} },
		"no node":      func(c *x509.Certificate) { c.URIs = nil },
		"two nodes":    func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs...) },
		"zero node":    func(c *x509.Certificate) { c.URIs = uri("achbridge:node:00000000000000000000000000000000") },
		"capital node": func(c *x509.Certificate) { c.URIs = uri("achbridge:node:AC000000000000000000000000000000") },
		"short node":   func(c *x509.Certificate) { c.URIs = uri("achbridge:node:ac") },
		"other scheme": func(c *x509.Certificate) { c.URIs = uri("https:node:ac000000000000000000000000000000") },
		"authority":    func(c *x509.Certificate) { c.IsCA = true },
		"key usage":    func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign },
		"server only":  func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
		"unknown demand": func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			template := *good
			template.RawSubject = nil // otherwise it would override the subject
			change(&template)
			issuer := &x509.Certificate{Subject: good.Issuer}
			public, _ := newPair(t)
			cert := parseLeaf(t, signed(t, &template, issuer, public, authority))
			_, err := pc.Verify([]*x509.Certificate{cert})
			fine := name == "nothing" || name == "past" || name == "future"
			if (err == nil) != fine || errors.Is(err, ErrWrongKey) {
				t.Errorf("verify: got %v", err)
			}
		})
	}
	t.Run("two certificates", func(t *testing.T) {
		if _, err := pc.Verify([]*x509.Certificate{good, good}); err == nil {
			t.Error("no error")
		}
	})
	t.Run("none", func(t *testing.T) {
		if _, err := pc.Verify(nil); err == nil {
			t.Error("no error")
		}
	})
	t.Run("another kind of key", func(t *testing.T) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificate(rand.Reader, good, &x509.Certificate{Subject: good.Issuer}, private.Public(), authority)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pc.Verify([]*x509.Certificate{parseLeaf(t, der)}); err == nil {
			t.Error("no error")
		}
	})
	t.Run("changed", func(t *testing.T) {
		cert := *good
		cert.RawTBSCertificate = bytes.Replace(good.RawTBSCertificate, []byte("robot"), []byte("r0b0t"), 1)
		if _, err := pc.Verify([]*x509.Certificate{&cert}); !errors.Is(err, ErrWrongKey) {
			t.Errorf("verify: got %v, want ErrWrongKey", err)
		}
	})
}

func TestNodeIDHasOneSpelling(t *testing.T) {
	want := nodeOf("robot")
	if got, err := ParseNodeID(want.String()); err != nil || got != want {
		t.Errorf("parse: got %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "ac", strings.ToUpper(want.String()), want.String() + "0", strings.Repeat("g", 32), strings.Repeat("0", 32)} {
		if got, err := ParseNodeID(bad); err == nil {
			t.Errorf("parse %q: got %v, want an error", bad, got)
		}
	}
}

// FuzzCertificate verifies arbitrary certificates of unauthenticated peers.
func FuzzCertificate(f *testing.F) {
	key := NewKey()
	node, err := NewMember(key, Peer{Node: nodeOf("pc"), Host: "pc"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(shown(f, node)[0])
	f.Fuzz(func(t *testing.T, der []byte) {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return
		}
		if c := claimOf(cert); !speakable(c.Host) || len(c.Network) > networkDigits {
			t.Errorf("claim %q: not printable in a log line", c)
		}
		if peer, err := peerOf(cert); err == nil && (!speakable(peer.Host) || peer.Host == "" || peer.Node == (NodeID{})) {
			t.Errorf("peer %q", peer)
		}
		if peer, err := node.Verify([]*x509.Certificate{cert}); err == nil && !bytes.Equal(der, shown(t, node)[0]) {
			t.Errorf("verified without a signature: %v", peer)
		}
	})
}

// speakable reports whether host is a valid name. It is independent of CheckHost.
func speakable(host string) bool {
	for _, r := range host {
		if !unicode.IsPrint(r) || r == '/' {
			return false
		}
	}
	return len(host) <= 63 && utf8.ValidString(host)
}

// shown returns the chain that a node presents.
func shown(t testing.TB, node *Member) [][]byte {
	t.Helper()
	c, err := node.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	return c.Certificate
}

// A name that looks like another one, or is invisible, would mislead users who read a list.
func TestConfusableHostNamesAreRefused(t *testing.T) {
	for what, name := range map[string]string{
		"zero width space": "kr\u200bang", "right to left override": "kr\u202eang", "isolate": "\u2066krang", "soft hyphen": "kr\u00adang",
		"byte order mark": "krang\ufeff", "combining grapheme joiner": "kr\u034fang", "variation selector": "krang\ufe0f",
		"hangul filler": "\u3164", "braille blank": "krang\u2800", "no-break space": "krang\u00a0", "line separator": "kr\u2028ang",
		"space at the end": "krang ", "space at the beginning": " krang", "tag": "krang\U000e0061", "replacement": "kr\ufffdang",
	} {
		if err := CheckHost(name); err == nil {
			t.Errorf("%s: %+q is accepted, want it refused", what, name)
		}
		forged := &x509.Certificate{Subject: pkix.Name{CommonName: name}, URIs: []*url.URL{nodeURI(NodeID{1})}}
		if _, err := peerOf(forged); err == nil {
			t.Errorf("%s: a certificate for %+q is accepted, want it refused", what, name)
		}
		if c := claimOf(forged); c.Host != "" {
			t.Errorf("%s: %+q gets into the log", what, c.Host)
		}
	}
	for _, name := range []string{"krang", "krang-ab12", "Küche pc", "机器人"} {
		if err := CheckHost(name); err != nil {
			t.Error(err)
		}
	}
}
