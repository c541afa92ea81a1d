package transport

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

	"github.com/pion/dtls/v3"
)

func newAuthority(t testing.TB) Authority {
	t.Helper()
	a, err := NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issued is what the node of a host is started with.
func issued(t testing.TB, a Authority, host string) Config {
	t.Helper()
	key, err := a.Issue(host, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return Config{Key: key, Node: key.Node(), Host: host}
}

// revoked is the list of that number which has the certificates of keys.
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

// forgery is what a host shows that has a certificate, or would have one.
type forgery struct {
	authority Authority
	host      *x509.Certificate // by the authority
	session   *x509.Certificate // by the host
	direct    bool              // the session certificate by the authority
	chain     func(session, host []byte, sign func(*x509.Certificate) []byte) [][]byte
}

// forge makes what robot would show, but for what change changes.
func forge(t *testing.T, a Authority, change func(*forgery)) tls.Certificate {
	t.Helper()
	now := time.Now()
	session, err := sessionTemplate("robot")
	if err != nil {
		t.Fatal(err)
	}
	session.NotBefore, session.NotAfter = now.Add(-slack), now.Add(sessionLife-slack)
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
	// The test makes what the standard library would rather not.
	parent := *issuer
	parent.PublicKey = by.Public()
	parent.SubjectKeyId = nil
	der, err := x509.CreateCertificate(rand.Reader, template, &parent, public, by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// named gives a session certificate the name of another host.
func named(host string) func(*forgery) {
	return func(f *forgery) {
		f.session.Subject = pkix.Name{CommonName: host}
		f.session.DNSNames = []string{dnsOf(host)}
	}
}

// forgeries are what must not pass, and why.
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
		"session for too long":      {func(f *forgery) { f.session.NotAfter = now.Add(sessionLife) }, errBadCertificate},
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

// withRevoked is an anchor of pc that knows a revoked serial number.
func withRevoked(t *testing.T, a Authority) *trust {
	t.Helper()
	cfg := issued(t, a, "pc")
	list, err := a.Revoke(1, []string{"bad"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	node, err := newTrust(cfg.Key, Peer{Host: cfg.Host, Node: cfg.Node}, list)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func TestForgedHostsAreRefused(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	pc := withRevoked(t, a)
	check := func(change func(*forgery)) (Peer, error) {
		var chain []*x509.Certificate
		for _, der := range forge(t, a, change).Certificate {
			chain = append(chain, parseLeaf(t, der))
		}
		return pc.verify(chain)
	}
	want := Peer{Host: "robot", Node: hostNode(a.public(), "robot")}
	if got, err := check(func(*forgery) {}); err != nil || got != want {
		t.Errorf("what is no forgery: got %v, %v, want %v", got, err, want)
	}
	for name, c := range forgeries(a, other, time.Now()) {
		t.Run(name, func(t *testing.T) {
			if got, err := check(c.change); !errors.Is(err, c.want) {
				t.Errorf("verify: got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// The same over the network: each protocol hands over the whole chain.
func TestForgedHostsAreRefusedAtTheDoor(t *testing.T) {
	for _, name := range []string{"another authority", "host has ended", "another host", "one step too long", "revoked"} {
		t.Run(name, func(t *testing.T) {
			dial := map[string]func(*testing.T, *lab, *Endpoint, tls.Certificate){
				"quic": func(t *testing.T, l *lab, pc *Endpoint, c tls.Certificate) {
					conn, err := newStranger(t, l, "10.0.1.1:999", c).dial(t, pc)
					refused(t, conn, err)
				},
				"sctp": func(t *testing.T, l *lab, pc *Endpoint, c tls.Certificate) {
					s := newSCTPStranger(t, l, "10.0.1.1:999")
					s.options = append(s.options, dtls.WithCertificates(c),
						dtls.WithConnectionIDGenerator(func() []byte { id := randomCID(); return id[:] }))
					if err := s.dial(t, pc); err == nil {
						t.Error("the stranger heard something")
					}
				},
			}
			overBoth(t, func(t *testing.T, l *lab) {
				a, other := newAuthority(t), newAuthority(t)
				cfg := issued(t, a, "pc")
				pc := l.start(t, cfg)
				list, err := a.Revoke(1, []string{"bad"}, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				if taken, err := pc.Revoke(list.Bytes()); !taken || err != nil {
					t.Fatalf("revoke: got %v, %v", taken, err)
				}
				_, overSCTP := pc.sctp.(*sctpProtocol)
				c := forgeries(a, other, time.Now())[name]
				before := len(l.logs[pc].lines(""))
				dial[map[bool]string{true: "sctp", false: "quic"}[overSCTP]](t, l, pc, forge(t, a, c.change))
				nobodyArrives(t, pc)
				lines := l.logs[pc].lines("")[before:]
				if len(lines) != 1 || !strings.Contains(lines[0], c.want.Error()) {
					t.Errorf("log: got %q, want one line with %q", lines, c.want)
				}
			})
		})
	}
}

func TestHostsOfOneAuthorityMeet(t *testing.T) {
	overBoth(t, func(t *testing.T, l *lab) {
		a := newAuthority(t)
		robot, pc := l.start(t, issued(t, a, "robot")), l.start(t, issued(t, a, "my_pc.lab-2"))
		accepted, dialled := l.join(t, robot, pc)
		if got := accepted.Peer(); got.Host != "my_pc.lab-2" || got.Node != hostNode(a.public(), "my_pc.lab-2") {
			t.Errorf("peer: got %v", got)
		}
		if got := dialled.Peer().Host; got != "robot" {
			t.Errorf("peer: got %v", got)
		}
		for name, key := range map[string]Key{"with a shared key": l.keys[0], "of another authority": issued(t, newAuthority(t), "robot").Key} {
			cfg := Config{Key: key, Node: key.Node(), Host: "robot"}
			if cfg.Node == (NodeID{}) {
				cfg.Node = nodeOf("robot")
			}
			stranger := l.start(t, cfg)
			if _, err := stranger.Dial(t.Context(), pc.LocalAddrs()); !errors.Is(err, ErrWrongKey) {
				t.Errorf("a host %s dials: got %v, want ErrWrongKey", name, err)
			}
			if _, err := pc.Dial(t.Context(), stranger.LocalAddrs()); !errors.Is(err, ErrWrongKey) {
				t.Errorf("a host %s is dialled: got %v, want ErrWrongKey", name, err)
			}
		}
	})
}

// A daemon runs for months with certificates of a day.
func TestSessionCertificatesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		node := func(host string) *trust {
			cfg := issued(t, a, host)
			n, err := newTrust(cfg.Key, Peer{Host: host, Node: cfg.Node}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		robot, pc := node("robot"), node("pc")
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
			if left := time.Until(now[0].NotAfter); left < sessionSpare || now[0].NotAfter.Sub(now[0].NotBefore) != sessionLife {
				t.Errorf("session certificate: got %v left of %v", left, now[0].NotAfter.Sub(now[0].NotBefore))
			}
			if _, err := robot.verify(now); err != nil {
				t.Errorf("verify: %v", err)
			}
			time.Sleep(9 * time.Hour)
		}
		if len(serials) < 4 {
			t.Errorf("session certificates in three days: got %d, want a new one each time that half of its life is over", len(serials))
		}
		if _, err := robot.verify(first); !errors.Is(err, ErrNotNow) {
			t.Errorf("the first one after three days: got %v, want %v", err, ErrNotNow)
		}
		if err := robot.stands(first); err != nil {
			t.Errorf("a session of three days ago: got %v, want it to live on", err)
		}
	})
}

// A robot without a battery for its clock begins in 1970. When its clock has been set,
// the certificate of 1970 must not be shown any more, however short ago that was by the
// monotonic clock, which a time keeps unless it is taken away.
func TestSessionCertificateIsAsOldAsTheWallClockSays(t *testing.T) {
	key := issued(t, newAuthority(t), "robot").Key
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

// Who sets the clock of a host back by years does not cut its links.
func TestSessionsOutliveAClockThatIsSetBack(t *testing.T) {
	a := newAuthority(t)
	early, err := a.Issue("robot", time.Now().AddDate(0, 6, 0)) // as a clock sees it that is half a year slow
	if err != nil {
		t.Fatal(err)
	}
	robot, pc := newHostAnchor(early.host(), nil), newHostAnchor(issued(t, a, "pc").Key.host(), nil)
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

// When a host's certificate ends, so do its sessions.
func TestSessionsEndWithTheCertificateOfTheirHost(t *testing.T) {
	inBubble(Listen, func(t *testing.T, l *lab) {
		a := newAuthority(t)
		old, err := a.Issue("robot", time.Now().AddDate(-1, 0, 0).Add(time.Minute)) // ends in a minute
		if err != nil {
			t.Fatal(err)
		}
		pc := l.start(t, issued(t, a, "pc"))
		_, s := l.join(t, pc, l.start(t, Config{Key: old, Node: old.Node(), Host: "robot"}))
		pc.Review()
		time.Sleep(time.Minute + time.Second)
		if err := s.Err(); err != nil {
			t.Fatalf("before the review: %v", err)
		}
		pc.Review()
		if err := waitDone(t, s); !strings.Contains(err.Error(), "not good now") {
			t.Errorf("got %v, want the reason", err)
		}
	})(t)
}

func TestRevocationEndsTheSessionsOfThatHostAlone(t *testing.T) {
	overBoth(t, func(t *testing.T, l *lab) {
		a := newAuthority(t)
		thief, pc := issued(t, a, "thief"), issued(t, a, "pc")
		robot := l.start(t, issued(t, a, "robot"))
		thiefs := l.start(t, thief)
		_, gone := l.join(t, robot, thiefs)
		_, kept := l.join(t, robot, l.start(t, pc))
		if taken, err := robot.Revoke(revoked(t, a, 1, thief.Key).Bytes()); !taken || err != nil {
			t.Fatalf("revoke: got %v, %v", taken, err)
		}
		if err := waitDone(t, gone); !strings.Contains(err.Error(), "your certificate is revoked") {
			t.Errorf("session of the revoked: got %v, want the reason", err)
		}
		if _, err := thiefs.Dial(t.Context(), robot.LocalAddrs()); !errors.Is(err, ErrRevoked) {
			t.Errorf("the revoked dials: got %v, want to be refused", err)
		}
		if err := kept.Err(); err != nil {
			t.Errorf("session of another: got %v, want it up", err)
		}
		again := issued(t, a, "thief") // the same name, a new certificate
		if again.Node != thief.Node {
			t.Error("a host with a new certificate has another node id")
		}
		l.join(t, robot, l.start(t, again))
	})
}

// Whichever end dials, both learn what is wrong with the certificate, and whose it is;
// neither takes the other for a member of another network.
func TestBothEndsLearnWhyACertificateIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		made func(now time.Time) time.Time
		want error
	}{
		{"revoked", func(now time.Time) time.Time { return now }, ErrRevoked},
		{"ended", func(now time.Time) time.Time { return now.AddDate(-2, 0, 0) }, ErrNotNow},
	} {
		t.Run(c.name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, l *lab) {
				a := newAuthority(t)
				key, err := a.Issue("thief", c.made(time.Now()))
				if err != nil {
					t.Fatal(err)
				}
				robot := l.start(t, issued(t, a, "robot"))
				thief := l.start(t, Config{Key: key, Node: key.Node(), Host: "thief"})
				if c.want == ErrRevoked {
					if taken, err := robot.Revoke(revoked(t, a, 1, key).Bytes()); !taken || err != nil {
						t.Fatalf("revoke: got %v, %v", taken, err)
					}
				}
				for _, d := range []struct {
					by, to         *Endpoint
					told, answered string // what the dialler's error says, and the log of the other end
				}{{thief, robot, "our ", "peer's "}, {robot, thief, "peer's ", "our "}} {
					_, err := d.by.Dial(t.Context(), d.to.LocalAddrs())
					if want := d.told + c.want.Error(); !errors.Is(err, c.want) || errors.Is(err, ErrWrongKey) || !strings.Contains(err.Error(), want) {
						t.Errorf("dialling: got %v, want %q", err, want)
					}
					want := d.answered + c.want.Error()
					until(t, "logged: "+want, func() bool { return len(l.logs[d.to].lines(want)) == 1 })
				}
				for _, e := range []*Endpoint{robot, thief} {
					for _, line := range l.logs[e].lines("msg") {
						if strings.Contains(line, ErrWrongKey.Error()) || strings.Contains(line, "network=") {
							t.Errorf("log: got %q, want nothing of another network", line)
						}
					}
				}
			})
		})
	}
}

func TestOnlyNewerListsOfOurAuthorityCount(t *testing.T) {
	inBubble(Listen, func(t *testing.T, l *lab) {
		a, other := newAuthority(t), newAuthority(t)
		thief := issued(t, a, "thief")
		robot := l.start(t, issued(t, a, "robot"))
		give := func(list []byte, wantTaken bool, wantErr error) {
			t.Helper()
			if taken, err := robot.Revoke(list); taken != wantTaken || !errors.Is(err, wantErr) {
				t.Errorf("revoke: got %v, %v, want %v, %v", taken, err, wantTaken, wantErr)
			}
		}
		give(revoked(t, other, 3).Bytes(), false, errForged)
		give(revoked(t, a, 5, thief.Key).Bytes(), true, nil)
		give(revoked(t, a, 5).Bytes(), false, nil)
		give(revoked(t, a, 4).Bytes(), false, nil)
		give(revoked(t, other, 6).Bytes(), false, errForged)
		changed := revoked(t, a, 6).Bytes()
		changed[len(changed)-1] ^= 1
		give(changed, false, errForged)
		give([]byte("junk"), false, errRevocations)
		if got := robot.Revocations(); got.Number() != 5 || !got.Has(thief.Key.Serial()) {
			t.Errorf("list: got number %d, want 5 with the thief", got.Number())
		}
		setKey(t, robot, issued(t, a, "robot").Key)
		if got := robot.Revocations().Number(); got != 5 {
			t.Errorf("list after a renewed certificate: got number %d, want 5", got)
		}
		setKey(t, robot, must(NewKey(), nil))
		give(revoked(t, a, 9).Bytes(), false, errNoAuthority)
	})(t)
}

func TestCertificateIsForItsHostAlone(t *testing.T) {
	a := newAuthority(t)
	cfg := issued(t, a, "robot")
	for name, change := range map[string]func(*Config){
		"another name": func(c *Config) { c.Host = "pc" },
		"another node": func(c *Config) { c.Node = nodeOf("robot") },
	} {
		wrong := cfg
		change(&wrong)
		if _, err := Listen(newLoopbackConn(t), wrong); err == nil || !strings.Contains(err.Error(), "certificate") {
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

func TestAuthorityAndHostKeysAreReadBackAndPrivate(t *testing.T) {
	a := newAuthority(t)
	key := issued(t, a, "robot").Key
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
	if shown := fmt.Sprintf("%v%+v%#v%x", key, key, Config{Key: key}, key); strings.Contains(shown, "PRIVATE") || !strings.Contains(shown, "host robot") {
		t.Errorf("shown: got %q", shown)
	}
}

func FuzzHostKey(f *testing.F) {
	a := newAuthority(f)
	good := issued(f, a, "robot").Key.text()
	f.Add(good)
	f.Add(a.text())
	f.Add(strings.ReplaceAll(good, "PRIVATE KEY", "CERTIFICATE"))
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := parseAuthority(text); err == nil {
			if _, err := parseAuthority(a.text()); err != nil {
				t.Errorf("authority written anew: %v", err)
			}
		}
		key, err := parseHostKey(text)
		if err != nil {
			if key.held != nil {
				t.Error("an error and a key")
			}
			return
		}
		if again, err := parseKey(key.text()); err != nil || again.Host() != key.Host() || again.Serial() != key.Serial() {
			t.Errorf("key of %s written anew: %v", key.Host(), err)
		}
		if checkIssuable(key.Host()) != nil || key.Node() == (NodeID{}) {
			t.Errorf("host %q, node %v", key.Host(), key.Node())
		}
	})
}

func FuzzRevocations(f *testing.F) {
	a := newAuthority(f)
	node, err := newTrust(issued(f, a, "pc").Key, Peer{}, nil)
	if err != nil {
		f.Fatal(err)
	}
	good := revoked(f, a, 3, issued(f, a, "robot").Key)
	f.Add(good.Bytes())
	f.Add(revoked(f, newAuthority(f), 1<<63).Bytes())
	f.Fuzz(func(t *testing.T, der []byte) {
		r, err := parseRevocations(der)
		if err != nil {
			return
		}
		if r.signedBy(node.anchor.(*hostAnchor).key.authority) && string(der) != string(good.Bytes()) {
			t.Errorf("list %d is signed, and nobody did", r.Number())
		}
		again, err := ParseRevocations(r.Text())
		if err != nil || again.Number() != r.Number() || len(again.serials) != len(r.serials) {
			t.Errorf("list %d written anew: %v", r.Number(), err)
		}
	})
}

func TestMixedHostKeysAreRefused(t *testing.T) {
	a := newAuthority(t)
	one, two := issued(t, a, "robot").Key.host(), issued(t, a, "pc").Key.host()
	other := issued(t, newAuthority(t), "robot").Key.host()
	for name, h := range map[string]hostKey{
		"another's secret":    {authority: one.authority, certificate: one.certificate, private: two.private, members: one.members},
		"another's authority": {authority: other.authority, certificate: one.certificate, private: one.private, members: one.members},
		"no host's":           {authority: one.authority, certificate: one.authority, private: one.private, members: one.members},
		"half a secret":       {authority: one.authority, certificate: one.certificate, private: one.private, members: one.members[1:]},
	} {
		if _, err := parseHostKey(h.text()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := parseHostKey(one.text()); err != nil {
		t.Errorf("what belongs together: %v", err)
	}
}

// What cannot be by the way in is refused once more.
func TestAnchorLooksAtItsOwnAuthorityAlone(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	cfg := issued(t, a, "pc")
	node := newHostAnchor(cfg.Key.host(), revoked(t, other, 7))
	if got := node.revoked.Number(); got != 0 {
		t.Errorf("another authority's list: got number %d, want none", got)
	}
	theirs := issued(t, other, "robot").Key.host()
	if err := node.stands([]*x509.Certificate{theirs.certificate, theirs.certificate}); !errors.Is(err, ErrWrongKey) {
		t.Errorf("another authority's host: got %v, want ErrWrongKey", err)
	}
	first, err := node.certificate()
	if err != nil {
		t.Fatal(err)
	}
	node.session.from = time.Now().Add(time.Hour) // the clock was put back
	if again, err := node.certificate(); err != nil || string(again.Certificate[0]) == string(first.Certificate[0]) {
		t.Errorf("after the clock was put back: got the same certificate, %v", err)
	}
}
