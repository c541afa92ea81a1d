package trust

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newAuthority(t testing.TB) Authority {
	t.Helper()
	a, err := NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issued returns a new key for host.
func issued(t testing.TB, a Authority, host string) Key {
	t.Helper()
	key, err := a.Issue(host, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// memberOf returns a member with the host key.
func memberOf(t testing.TB, key Key, revoked *Revocations) *Member {
	t.Helper()
	m, err := NewMember(key, Peer{Host: key.Host(), Node: key.Node()}, revoked)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// revoked returns a list with this number that revokes the certificates of keys.
func revoked(t testing.TB, a Authority, number uint64, keys ...Key) *Revocations {
	t.Helper()
	var serials []string
	for _, k := range keys {
		serials = append(serials, k.Serial())
	}
	r, err := a.Revoke(number, serials, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// forgery describes the chain that an attacker presents.
type forgery struct {
	authority Authority
	host      *x509.Certificate // signed by the authority
	session   *x509.Certificate // signed by the host
	direct    bool              // whether the authority, instead of the host, signs the session certificate
	chain     func(session, host []byte, sign func(*x509.Certificate) []byte) [][]byte
}

// forge returns the chain that host robot would present, after change has modified it.
func forge(t *testing.T, a Authority, change func(*forgery)) tls.Certificate {
	t.Helper()
	now := time.Now()
	session, err := sessionTemplate("robot")
	if err != nil {
		t.Fatal(err)
	}
	session.NotBefore, session.NotAfter = now.Add(-slack), now.Add(sessionLifetime-slack)
	session.DNSNames = []string{dnsOf("robot")}
	f := &forgery{authority: a, host: a.hostTemplate("robot", big.NewInt(7), now), session: session}
	change(f)

	hostPublic, hostPrivate := newPair(t)
	host := signed(t, f.host, f.authority.certificate, hostPublic, f.authority.private())
	by, issuer := hostPrivate, parseLeaf(t, host)
	if f.direct {
		by, issuer = f.authority.private(), f.authority.certificate
	}
	public, private := newPair(t)
	der := signed(t, f.session, issuer, public, by)
	chain := [][]byte{der, host}
	if f.chain != nil {
		chain = f.chain(der, host, func(template *x509.Certificate) []byte {
			return signed(t, template, parseLeaf(t, host), public, hostPrivate)
		})
	}
	return tls.Certificate{Certificate: chain, PrivateKey: private}
}

func newPair(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func signed(t *testing.T, template, issuer *x509.Certificate, public ed25519.PublicKey, by ed25519.PrivateKey) []byte {
	t.Helper()
	// The copy makes the standard library sign certificates that it would otherwise refuse.
	parent := *issuer
	parent.PublicKey = by.Public()
	parent.SubjectKeyId = nil
	der, err := x509.CreateCertificate(rand.Reader, template, &parent, public, by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// named returns a change that gives the session certificate the name of another host.
func named(host string) func(*forgery) {
	return func(f *forgery) {
		f.session.Subject = pkix.Name{CommonName: host}
		f.session.DNSNames = []string{dnsOf(host)}
	}
}

// forgeries returns chains that must be refused, with the expected errors.
func forgeries(a, other Authority, now time.Time) map[string]struct {
	change func(*forgery)
	want   error
} {
	day := 24 * time.Hour
	return map[string]struct {
		change func(*forgery)
		want   error
	}{
		"another authority":         {func(f *forgery) { f.authority = other }, ErrWrongKey},
		"host has ended":            {func(f *forgery) { f.host.NotBefore, f.host.NotAfter = now.Add(-400*day), now.Add(-time.Minute) }, ErrNotNow},
		"host is not good yet":      {func(f *forgery) { f.host.NotBefore = now.Add(time.Minute) }, ErrNotNow},
		"session has ended":         {func(f *forgery) { f.session.NotBefore, f.session.NotAfter = now.Add(-day), now.Add(-time.Second) }, ErrNotNow},
		"session is not good yet":   {func(f *forgery) { f.session.NotBefore, f.session.NotAfter = now.Add(time.Minute), now.Add(day) }, ErrNotNow},
		"session for too long":      {func(f *forgery) { f.session.NotAfter = now.Add(sessionLifetime) }, errBadCertificate},
		"another host":              {named("pc"), errBadCertificate},
		"a name below":              {named("x.robot"), errBadCertificate},
		"in capitals":               {named("ROBOT"), errBadCertificate},
		"another common name":       {func(f *forgery) { f.session.Subject = pkix.Name{CommonName: "pc"} }, errBadCertificate},
		"no name":                   {func(f *forgery) { named("pc")(f); f.session.DNSNames = nil }, errBadCertificate},
		"no name but its own":       {func(f *forgery) { f.session.DNSNames = nil }, errBadCertificate},
		"two names":                 {func(f *forgery) { f.session.DNSNames = append(f.session.DNSNames, dnsOf("x.robot")) }, errBadCertificate},
		"another host's node":       {func(f *forgery) { f.session.URIs = []*url.URL{nodeURI(hostNode(a.public(), "pc"))} }, errBadCertificate},
		"host may not sign":         {func(f *forgery) { f.host.IsCA, f.host.MaxPathLenZero = false, false }, ErrWrongKey},
		"host's key is not to sign": {func(f *forgery) { f.host.KeyUsage = x509.KeyUsageDigitalSignature }, ErrWrongKey},
		"host of any name":          {func(f *forgery) { f.host.PermittedDNSDomains = nil }, errBadCertificate},
		"host of two names":         {func(f *forgery) { f.host.PermittedDNSDomains = append(f.host.PermittedDNSDomains, dnsOf("pc")) }, errBadCertificate},
		"host's name not critical":  {func(f *forgery) { f.host.PermittedDNSDomainsCritical = false }, errBadCertificate},
		"session may sign":          {func(f *forgery) { f.session.IsCA = true }, errBadCertificate},
		"session is for servers":    {func(f *forgery) { f.session.ExtKeyUsage = f.session.ExtKeyUsage[1:] }, errBadCertificate},
		"alone": {func(f *forgery) {
			f.chain = func(s, _ []byte, _ func(*x509.Certificate) []byte) [][]byte { return [][]byte{s} }
		}, ErrWrongKey},
		"with its authority": {func(f *forgery) {
			f.chain = func(s, h []byte, _ func(*x509.Certificate) []byte) [][]byte {
				return [][]byte{s, h, a.certificate.Raw}
			}
		}, errBadCertificate},
		"one step too long": {func(f *forgery) {
			f.chain = func(s, h []byte, sign func(*x509.Certificate) []byte) [][]byte {
				return [][]byte{s, sign(f.host), h}
			}
		}, errBadCertificate},
		"by the authority itself": {func(f *forgery) { f.direct = true }, errBadCertificate},
		"the host's own": {func(f *forgery) {
			f.chain = func(_, h []byte, _ func(*x509.Certificate) []byte) [][]byte { return [][]byte{h, h} }
		}, errBadCertificate},
		"revoked": {func(f *forgery) { f.host.SerialNumber = big.NewInt(0xbad) }, ErrRevoked},
	}
}

// withRevoked returns a member of host pc with a list that revokes one serial number.
func withRevoked(t *testing.T, a Authority) *Member {
	t.Helper()
	list, err := a.Revoke(1, []string{"bad"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return memberOf(t, issued(t, a, "pc"), list)
}

func TestForgedChainsAreRefused(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	pc := withRevoked(t, a)
	check := func(change func(*forgery)) (Peer, error) {
		var chain []*x509.Certificate
		for _, der := range forge(t, a, change).Certificate {
			chain = append(chain, parseLeaf(t, der))
		}
		return pc.Verify(chain)
	}
	want := Peer{Host: "robot", Node: hostNode(a.public(), "robot")}
	if got, err := check(func(*forgery) {}); err != nil || got != want {
		t.Errorf("valid chain: got %v, %v, want %v", got, err, want)
	}
	for name, c := range forgeries(a, other, time.Now()) {
		t.Run(name, func(t *testing.T) {
			if got, err := check(c.change); !errors.Is(err, c.want) {
				t.Errorf("verify: got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// A daemon runs for months, but a session certificate is valid for one day.
func TestSessionCertificatesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		robot, pc := memberOf(t, issued(t, a, "robot"), nil), memberOf(t, issued(t, a, "pc"), nil)
		chain := func() (chain []*x509.Certificate) {
			for _, der := range shown(t, pc) {
				chain = append(chain, parseLeaf(t, der))
			}
			return chain
		}
		first := chain()
		serials := make(map[string]bool)
		for range 8 {
			now := chain()
			serials[now[0].SerialNumber.String()] = true
			if left := time.Until(now[0].NotAfter); left < renewBefore || now[0].NotAfter.Sub(now[0].NotBefore) != sessionLifetime {
				t.Errorf("session certificate: got %v left of %v", left, now[0].NotAfter.Sub(now[0].NotBefore))
			}
			if _, err := robot.Verify(now); err != nil {
				t.Errorf("verify: %v", err)
			}
			time.Sleep(9 * time.Hour)
		}
		if len(serials) < 4 {
			t.Errorf("session certificates in three days: got %d, want a new one after each half of the validity", len(serials))
		}
		if _, err := robot.Verify(first); !errors.Is(err, ErrNotNow) {
			t.Errorf("the first one after three days: got %v, want %v", err, ErrNotNow)
		}
		if err := robot.Stands(first); err != nil {
			t.Errorf("a session of three days ago: got %v, want it to live on", err)
		}
	})
}

// The clock of a robot without a battery starts in 1970. Once its clock is set, the robot must
// not present the certificate of 1970 any more, however recent that is by the monotonic clock.
// A time.Time has a monotonic reading unless it is removed.
func TestSessionCertificateValidityUsesWallClock(t *testing.T) {
	key := issued(t, newAuthority(t), "robot")
	a := newHostAnchor(key.host(), nil)
	if _, err := a.certificate(); err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]time.Time{"beginning": a.session.from, "end": a.session.through} {
		if at.IsZero() || at != at.Round(0) {
			t.Errorf("%s of the session certificate: got %v, want a time of the wall clock alone", what, at)
		}
	}
}

// Setting the clock of a host back by years must not close its sessions.
func TestSessionsOutliveClockSetBack(t *testing.T) {
	a := newAuthority(t)
	early, err := a.Issue("robot", time.Now().AddDate(0, 6, 0)) // like a clock that is half a year slow
	if err != nil {
		t.Fatal(err)
	}
	robot, pc := newHostAnchor(early.host(), nil), newHostAnchor(issued(t, a, "pc").host(), nil)
	own, err := robot.certificate()
	if err != nil {
		t.Fatal(err)
	}
	var chain []*x509.Certificate
	for _, der := range own.Certificate {
		chain = append(chain, parseLeaf(t, der))
	}
	if err := pc.stands(chain); err != nil {
		t.Errorf("a session: got %v, want it to live on", err)
	}
	if _, err := pc.identify(chain); !errors.Is(err, ErrNotNow) {
		t.Errorf("a new one: got %v, want %v", err, ErrNotNow)
	}
}

func TestHostKeyFitsOnlyItsHost(t *testing.T) {
	a := newAuthority(t)
	key := issued(t, a, "robot")
	if err := key.Fits(Peer{Host: "robot", Node: key.Node()}); err != nil {
		t.Error(err)
	}
	for name, self := range map[string]Peer{
		"another name": {Host: "pc", Node: key.Node()},
		"another node": {Host: "robot", Node: nodeOf("robot")},
	} {
		if err := key.Fits(self); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: got %v, want an error that tells of the certificate", name, err)
		}
	}
	for _, host := range []string{"", ".", "a.", ".a", "a..b", "a b", "ü", "a/b", strings.Repeat("a", 64), "*"} {
		if _, err := a.Issue(host, time.Now()); err == nil {
			t.Errorf("issue %q: no error", host)
		}
	}
	for _, host := range []string{"a", "A_b-c.d", "-", "_", "63", "10.0.0.1", strings.Repeat("a", 63)} {
		if _, err := a.Issue(host, time.Now()); err != nil {
			t.Errorf("issue %q: %v", host, err)
		}
	}
}

func TestAuthorityAndHostKeyFilesArePrivate(t *testing.T) {
	a := newAuthority(t)
	key := issued(t, a, "robot")
	dir := t.TempDir()
	for name, c := range map[string]struct {
		write func(string) error
		read  func(string) (string, error)
		text  string
	}{
		"authority": {a.Write, func(path string) (string, error) {
			a, err := ReadAuthority(path)
			if err != nil {
				return "", err
			}
			return a.text(), nil
		}, a.text()},
		"key": {key.Write, func(path string) (string, error) {
			k, err := ReadKey(path)
			if err != nil {
				return "", err
			}
			return k.text(), nil
		}, key.text()},
	} {
		path := filepath.Join(dir, name)
		if err := c.write(path); err != nil {
			t.Fatal(err)
		}
		if got, err := c.read(path); err != nil || got != c.text {
			t.Errorf("%s read back: got another text, %v", name, err)
		}
		if err := c.write(path); !errors.Is(err, os.ErrExist) {
			t.Errorf("%s over itself: got %v, want os.ErrExist", name, err)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := c.read(path); !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s of mode 0640: got %v, want os.ErrPermission", name, err)
		}
	}
	if shown := fmt.Sprintf("%v%+v%#v%x", key, key, struct{ Key Key }{key}, key); strings.Contains(shown, "PRIVATE") || !strings.Contains(shown, "host robot") {
		t.Errorf("shown: got %q", shown)
	}
}

func FuzzHostKey(f *testing.F) {
	a := newAuthority(f)
	good := issued(f, a, "robot").text()
	f.Add(good)
	f.Add(a.text())
	f.Add(strings.ReplaceAll(good, "PRIVATE KEY", "CERTIFICATE"))
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := parseAuthority(text); err == nil {
			if _, err := parseAuthority(a.text()); err != nil {
				t.Errorf("authority written again: got %v, want the same text", err)
			}
		}
		key, err := parseHostKey(text)
		if err != nil {
			if key.keyring != nil {
				t.Error("got an error and a key, want only an error")
			}
			return
		}
		if again, err := ParseKey(key.text()); err != nil || again.Host() != key.Host() || again.Serial() != key.Serial() {
			t.Errorf("key of %s written again: got %v, want the same text", key.Host(), err)
		}
		if checkIssuable(key.Host()) != nil || key.Node() == (NodeID{}) {
			t.Errorf("host %q, node %v", key.Host(), key.Node())
		}
	})
}

func FuzzRevocations(f *testing.F) {
	a := newAuthority(f)
	node := memberOf(f, issued(f, a, "pc"), nil)
	good := revoked(f, a, 3, issued(f, a, "robot"))
	f.Add(good.Bytes())
	f.Add(revoked(f, newAuthority(f), 1<<63).Bytes())
	f.Fuzz(func(t *testing.T, der []byte) {
		r, err := DecodeRevocations(der)
		if err != nil {
			return
		}
		if r.signedBy(node.anchor.(*hostAnchor).key.authority) && string(der) != string(good.Bytes()) {
			t.Errorf("list %d: accepted without a signature, want an error", r.Number())
		}
		again, err := ParseRevocations(r.Text())
		if err != nil || again.Number() != r.Number() || len(again.serials) != len(r.serials) {
			t.Errorf("list %d written again: got %v, want the same text", r.Number(), err)
		}
	})
}

func TestMixedHostKeysAreRefused(t *testing.T) {
	a := newAuthority(t)
	one, two := issued(t, a, "robot").host(), issued(t, a, "pc").host()
	other := issued(t, newAuthority(t), "robot").host()
	for name, h := range map[string]hostKey{
		"another's secret":    {authority: one.authority, certificate: one.certificate, private: two.private},
		"another's authority": {authority: other.authority, certificate: one.certificate, private: one.private},
		"no host's":           {authority: one.authority, certificate: one.authority, private: one.private},
	} {
		if _, err := parseHostKey(h.text()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, text := range []string{one.text(), one.text() + encodeBlock(blockMembers, make([]byte, keySize))} { // also in the old format
		if _, err := parseHostKey(text); err != nil {
			t.Errorf("matching keys: got %v, want them accepted", err)
		}
	}
}

// An anchor refuses foreign keys and lists even if its callers already do so.
func TestAnchorRefusesOtherAuthority(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	node := newHostAnchor(issued(t, a, "pc").host(), revoked(t, other, 7))
	if got := node.revoked.Number(); got != 0 {
		t.Errorf("another authority's list: got number %d, want none", got)
	}
	theirs := issued(t, other, "robot").host()
	if err := node.stands([]*x509.Certificate{theirs.certificate, theirs.certificate}); !errors.Is(err, ErrWrongKey) {
		t.Errorf("another authority's host: got %v, want ErrWrongKey", err)
	}
	first, err := node.certificate()
	if err != nil {
		t.Fatal(err)
	}
	node.session.from = time.Now().Add(time.Hour) // the clock was set back
	if again, err := node.certificate(); err != nil || string(again.Certificate[0]) == string(first.Certificate[0]) {
		t.Errorf("after the clock was put back: got the same certificate, %v", err)
	}
}
