package transport

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pion/dtls/v3"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/testnet/await"
)

func newAuthority(t testing.TB) trust.Authority {
	t.Helper()
	a, err := trust.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issued returns the Config of a host with a key from the authority.
func issued(t testing.TB, a trust.Authority, host string) Config {
	t.Helper()
	key, err := a.Issue(host, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return Config{Key: key, Node: key.Node(), Host: host}
}

// revoked returns a list with this number that revokes the certificates of keys.
func revoked(t testing.TB, a trust.Authority, number uint64, keys ...trust.Key) *trust.Revocations {
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

// forgery describes the chain that an attacker presents. The test of package trust has all kinds
// of forgeries.
type forgery struct {
	authority trust.Authority
	host      *x509.Certificate // signed by the authority
	session   *x509.Certificate // signed by the host
	tooLong   bool              // one more certificate, by the host
}

// forge returns the chain that host robot would present, after change has modified it. The valid
// parts are from the files of the authority and of the host, and from a member's certificate.
func forge(t *testing.T, a trust.Authority, change func(*forgery)) tls.Certificate {
	t.Helper()
	robot := issued(t, a, "robot")
	shown := certificateOf(t, robot.Key, trust.Peer{Host: robot.Host, Node: robot.Node})
	f := &forgery{authority: a, session: parseLeaf(t, shown.Certificate[0]), host: parseLeaf(t, shown.Certificate[1])}
	change(f)
	authority, secret := pairIn(t, f.authority)
	by := issue(t, f.host, authority, secret)
	issuer := parseLeaf(t, by.Certificate[0])
	own := issue(t, f.session, issuer, by.PrivateKey.(ed25519.PrivateKey))
	if f.tooLong {
		further := issue(t, f.host, issuer, by.PrivateKey.(ed25519.PrivateKey))
		own.Certificate = append(own.Certificate, further.Certificate...)
	}
	own.Certificate = append(own.Certificate, by.Certificate...)
	return own
}

// pairIn returns the certificate of an authority and its secret key, both read from the authority's file.
func pairIn(t *testing.T, a trust.Authority) (*x509.Certificate, ed25519.PrivateKey) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "authority")
	if err := a.Write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cert, rest := pem.Decode(text)
	secret, _ := pem.Decode(rest)
	private, err := x509.ParsePKCS8PrivateKey(secret.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return parseLeaf(t, cert.Bytes), private.(ed25519.PrivateKey)
}

func parseLeaf(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// Both protocols must pass the whole chain of certificates to package trust, which refuses forged ones.
func TestForgedChainsAreRefusedInHandshake(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*forgery)
		want   string
	}{
		"another authority": {func(f *forgery) { f.authority = newAuthority(t) }, trust.ErrWrongKey.Error()},
		"host has ended": {func(f *forgery) {
			f.host.NotBefore, f.host.NotAfter = time.Now().AddDate(-2, 0, 0), time.Now().Add(-time.Minute)
		}, trust.ErrNotNow.Error()},
		"another host": {func(f *forgery) {
			f.session.RawSubject, f.session.Subject = nil, pkix.Name{CommonName: "pc"}
			f.session.DNSNames = []string{"pc.host.achbridge"}
		}, "peer's certificate is not one of a node"},
		"one step too long": {func(f *forgery) { f.tooLong = true }, "peer's certificate is not one of a node"},
		"revoked":           {func(f *forgery) { f.host.SerialNumber = big.NewInt(0xbad) }, trust.ErrRevoked.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			dial := map[string]func(*testing.T, *lab, *Endpoint, tls.Certificate){
				"quic": func(t *testing.T, l *lab, pc *Endpoint, c tls.Certificate) {
					conn, err := newUnknownPeer(t, l, "10.0.1.1:999", c).dial(t, pc)
					refused(t, conn, err)
				},
				"sctp": func(t *testing.T, l *lab, pc *Endpoint, c tls.Certificate) {
					if err := dialDTLS(t, l, pc, dtls.WithCertificates(c)); err == nil {
						t.Error("the unknown peer received a message, want none")
					}
				},
			}
			overBoth(t, func(t *testing.T, l *lab) {
				a := newAuthority(t)
				pc := l.start(t, issued(t, a, "pc"))
				list, err := a.Revoke(1, []string{"bad"}, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				if taken, err := pc.Revoke(list.Bytes()); !taken || err != nil {
					t.Fatalf("revoke: got %v, %v", taken, err)
				}
				sound := forge(t, a, func(*forgery) {})
				if chain, err := trust.ParseChain(sound.Certificate); err != nil {
					t.Error(err)
				} else if _, err := pc.trusted().Verify(chain); err != nil {
					t.Errorf("valid chain: got %v, want it accepted", err)
				}
				before := len(l.logs[pc].lines(""))
				dial[map[bool]string{true: "sctp", false: "quic"}[pc.sctp != nil]](t, l, pc, forge(t, a, c.change))
				nobodyArrives(t, pc)
				lines := l.logs[pc].lines("")[before:]
				if len(lines) != 1 || !strings.Contains(lines[0], c.want) {
					t.Errorf("log: got %q, want one line with %q", lines, c.want)
				}
			})
		})
	}
}

func TestHostsOfOneAuthorityConnect(t *testing.T) {
	overAll(t, func(t *testing.T, l *lab) {
		a := newAuthority(t)
		robot, pc := l.start(t, issued(t, a, "robot")), l.start(t, issued(t, a, "my_pc.lab-2"))
		accepted, dialled := l.join(t, robot, pc)
		if got := accepted.Peer(); got.Host != "my_pc.lab-2" || got.Node != issued(t, a, "my_pc.lab-2").Node {
			t.Errorf("peer: got %v", got)
		}
		if got := dialled.Peer().Host; got != "robot" {
			t.Errorf("peer: got %v", got)
		}
		if issued(t, a, "robot").Node == issued(t, newAuthority(t), "robot").Node {
			t.Error("hosts of two authorities have one node id")
		}
		for name, key := range map[string]trust.Key{"with a shared key": l.keys[0], "of another authority": issued(t, newAuthority(t), "robot").Key} {
			cfg := Config{Key: key, Node: key.Node(), Host: "robot"}
			if cfg.Node == (trust.NodeID{}) {
				cfg.Node = nodeOf("robot")
			}
			unknownPeer := l.start(t, cfg)
			if _, err := unknownPeer.Dial(t.Context(), pc.LocalAddrs()); !errors.Is(err, trust.ErrWrongKey) {
				t.Errorf("a host %s dials: got %v, want trust.ErrWrongKey", name, err)
			}
			if _, err := pc.Dial(t.Context(), unknownPeer.LocalAddrs()); !errors.Is(err, trust.ErrWrongKey) {
				t.Errorf("a host %s is dialled: got %v, want trust.ErrWrongKey", name, err)
			}
		}
	})
}

func TestHostsSignWithCertificateKeys(t *testing.T) {
	overAll(t, func(t *testing.T, l *lab) {
		a := newAuthority(t)
		robot, pc := l.start(t, issued(t, a, "robot")), l.start(t, issued(t, a, "pc"))
		accepted, dialled := l.join(t, robot, pc)
		text, context := []byte("a frame"), &ed25519.Options{Context: "a purpose"}
		for _, c := range []struct {
			by     *Endpoint
			reader *session.Session
		}{{robot, dialled}, {pc, accepted}} {
			signature, err := c.by.Signer().Sign(nil, text, context)
			if err != nil || ed25519.VerifyWithOptions(c.reader.SignedBy(), text, signature, context) != nil {
				t.Errorf("signature of %s: %v, or not by its certificate's key", c.reader.Peer().Host, err)
			}
		}
		shared, other := l.node(t, "shared"), l.node(t, "other")
		accepted, _ = l.join(t, shared, other)
		if shared.Signer() != nil || accepted.SignedBy() != nil {
			t.Error("under a shared key: got a signing key, want none")
		}
	})
}

// Review ends the sessions of hosts whose certificates have expired.
func TestReviewEndsSessionsOfExpiredCertificates(t *testing.T) {
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
		if err := waitDone(t, s); !strings.Contains(err.Error(), "not valid now") {
			t.Errorf("got %v, want the reason", err)
		}
	})(t)
}

func TestRevocationEndsOnlySessionsOfRevokedHost(t *testing.T) {
	overAll(t, func(t *testing.T, l *lab) {
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
		if _, err := thiefs.Dial(t.Context(), robot.LocalAddrs()); !errors.Is(err, trust.ErrRevoked) {
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

// Regardless of which end dials, both ends must get the reason of the refusal and the owner of the certificate. Neither
// end may report a member of another network.
func TestCertificateRefusalReasonReachesBothEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		made func(now time.Time) time.Time
		want error
	}{
		{"revoked", func(now time.Time) time.Time { return now }, trust.ErrRevoked},
		{"ended", func(now time.Time) time.Time { return now.AddDate(-2, 0, 0) }, trust.ErrNotNow},
	} {
		t.Run(c.name, func(t *testing.T) {
			overAll(t, func(t *testing.T, l *lab) {
				a := newAuthority(t)
				key, err := a.Issue("thief", c.made(time.Now()))
				if err != nil {
					t.Fatal(err)
				}
				robot := l.start(t, issued(t, a, "robot"))
				thief := l.start(t, Config{Key: key, Node: key.Node(), Host: "thief"})
				if c.want == trust.ErrRevoked {
					if taken, err := robot.Revoke(revoked(t, a, 1, key).Bytes()); !taken || err != nil {
						t.Fatalf("revoke: got %v, %v", taken, err)
					}
				}
				for _, d := range []struct {
					by, to             *Endpoint
					reported, answered string // texts in the dialler's error and in the log of the other end
				}{{thief, robot, "our ", "peer's "}, {robot, thief, "peer's ", "our "}} {
					_, err := d.by.Dial(t.Context(), d.to.LocalAddrs())
					if want := d.reported + c.want.Error(); !errors.Is(err, c.want) || errors.Is(err, trust.ErrWrongKey) || !strings.Contains(err.Error(), want) {
						t.Errorf("dialling: got %v, want %q", err, want)
					}
					want := d.answered + c.want.Error()
					await.True(t, "logged: "+want, func() bool { return len(l.logs[d.to].lines(want)) == 1 })
				}
				for _, e := range []*Endpoint{robot, thief} {
					for _, line := range l.logs[e].lines("msg") {
						if strings.Contains(line, trust.ErrWrongKey.Error()) || strings.Contains(line, "network=") {
							t.Errorf("log: got %q, want nothing of another network", line)
						}
					}
				}
			})
		})
	}
}

func TestOnlyNewerRevocationListsAreAccepted(t *testing.T) {
	inBubble(Listen, func(t *testing.T, l *lab) {
		a, other := newAuthority(t), newAuthority(t)
		thief := issued(t, a, "thief")
		robot := l.start(t, issued(t, a, "robot"))
		const (
			fine        = "<nil>"
			forged      = "list of revocations: not signed by our authority"
			noList      = "not a list of revocations"
			noAuthority = "list of revocations: this network has a shared key and no authority"
		)
		give := func(list []byte, wantTaken bool, wantErr string) {
			t.Helper()
			if taken, err := robot.Revoke(list); taken != wantTaken || fmt.Sprint(err) != wantErr {
				t.Errorf("revoke: got %v, %v, want %v, %v", taken, err, wantTaken, wantErr)
			}
		}
		give(revoked(t, other, 3).Bytes(), false, forged)
		give(revoked(t, a, 5, thief.Key).Bytes(), true, fine)
		give(revoked(t, a, 5).Bytes(), false, fine)
		give(revoked(t, a, 4).Bytes(), false, fine)
		give(revoked(t, other, 6).Bytes(), false, forged)
		changed := revoked(t, a, 6).Bytes()
		changed[len(changed)-1] ^= 1
		give(changed, false, forged)
		give([]byte("junk"), false, noList)
		if got := robot.Revocations(); got.Number() != 5 || !got.Has(thief.Key.Serial()) {
			t.Errorf("list: got number %d, want 5 with the thief", got.Number())
		}
		setKey(t, robot, issued(t, a, "robot").Key)
		if got := robot.Revocations().Number(); got != 5 {
			t.Errorf("list after a renewed certificate: got number %d, want 5", got)
		}
		setKey(t, robot, trust.NewKey())
		give(revoked(t, a, 9).Bytes(), false, noAuthority)
	})(t)
}
