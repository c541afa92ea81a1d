package transport

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net"
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
	mine, err := newTrust(key, self, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newTrust(key, Peer{Node: nodeOf("pc"), Host: "pc"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cert := parseLeaf(t, shown(t, mine)[0])
	got, err := other.verify([]*x509.Certificate{cert})
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

func parseLeaf(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// Whatever a member signs that newTrust would not, is refused.
func TestOddCertificatesAreRefused(t *testing.T) {
	key := NewKey()
	pc, err := newTrust(key, Peer{Node: nodeOf("pc"), Host: "pc"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	good := parseLeaf(t, certificateOf(t, key, Peer{Node: nodeOf("robot"), Host: "robot"}).Certificate[0])
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
			template.RawSubject = nil // or it would win
			change(&template)
			issuer := &x509.Certificate{Subject: good.Issuer}
			cert := parseLeaf(t, issue(t, &template, issuer, authorityOf(key.held().secrets[0])).Certificate[0])
			_, err := pc.verify([]*x509.Certificate{cert})
			fine := name == "nothing" || name == "past" || name == "future"
			if (err == nil) != fine || errors.Is(err, ErrWrongKey) {
				t.Errorf("verify: got %v", err)
			}
		})
	}
	t.Run("two certificates", func(t *testing.T) {
		if _, err := pc.verify([]*x509.Certificate{good, good}); err == nil {
			t.Error("no error")
		}
	})
	t.Run("none", func(t *testing.T) {
		if _, err := pc.verify(nil); err == nil {
			t.Error("no error")
		}
	})
	t.Run("another kind of key", func(t *testing.T) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificate(rand.Reader, good, &x509.Certificate{Subject: good.Issuer}, private.Public(), authorityOf(key.held().secrets[0]))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pc.verify([]*x509.Certificate{parseLeaf(t, der)}); err == nil {
			t.Error("no error")
		}
	})
	t.Run("changed", func(t *testing.T) {
		cert := *good
		cert.RawTBSCertificate = bytes.Replace(good.RawTBSCertificate, []byte("robot"), []byte("r0b0t"), 1)
		if _, err := pc.verify([]*x509.Certificate{&cert}); !errors.Is(err, ErrWrongKey) {
			t.Errorf("verify: got %v, want ErrWrongKey", err)
		}
	})
}

func TestListenReportsEveryMistakeAtOnce(t *testing.T) {
	conn := newLoopbackConn(t)
	_, err := Listen(conn, Config{Host: "a/b", IdleTimeout: time.Millisecond})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"achbridge key new", "no node id", `"a/b"`, "idle timeout 1ms"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error: got %q, want %q in it", err, want)
		}
	}
	if _, err := conn.WriteTo([]byte("x"), conn.LocalAddr()); err != nil {
		t.Errorf("the socket of a failed Listen: got %v, want it open: it is the caller's", err)
	}
}

func TestDialRefusesWhatIsNoUDPAddress(t *testing.T) {
	e, err := Listen(newLoopbackConn(t), Config{Key: NewKey(), Node: nodeOf("pc"), Host: "pc"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Dial(context.Background(), Addrs{}); err == nil || !strings.Contains(err.Error(), "no address") {
		t.Errorf("dial nowhere: got %v", err)
	}
	for _, addr := range []net.Addr{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}} {
		if _, err := e.Dial(context.Background(), Addrs{QUIC: addr}); err == nil || !strings.Contains(err.Error(), "UDP address") {
			t.Errorf("dial %v: got %v", addr, err)
		}
	}
}

func newLoopbackConn(t *testing.T) net.PacketConn {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
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

// FuzzCertificate feeds what a stranger may show before we know who it is.
func FuzzCertificate(f *testing.F) {
	key := NewKey()
	node, err := newTrust(key, Peer{Node: nodeOf("pc"), Host: "pc"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(shown(f, node)[0])
	f.Fuzz(func(t *testing.T, der []byte) {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return
		}
		if c := claimOf(cert); !speakable(c.host) || len(c.network) > networkDigits {
			t.Errorf("claim %q would spoil a log", c)
		}
		if peer, err := peerOf(cert); err == nil && (!speakable(peer.Host) || peer.Host == "" || peer.Node == (NodeID{})) {
			t.Errorf("peer %q", peer)
		}
		if peer, err := node.verify([]*x509.Certificate{cert}); err == nil && !bytes.Equal(der, shown(t, node)[0]) {
			t.Errorf("verified without a signature: %v", peer)
		}
	})
}

// speakable is checkHost said once more, in other words.
func speakable(host string) bool {
	for _, r := range host {
		if unicode.IsControl(r) || r == '/' {
			return false
		}
	}
	return len(host) <= 63 && utf8.ValidString(host)
}

// shown is the chain that a node presents.
func shown(t testing.TB, node *trust) [][]byte {
	t.Helper()
	c, err := node.certificate()
	if err != nil {
		t.Fatal(err)
	}
	return c.Certificate
}
