package transport

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/quic-go/quic-go"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// unknownPeer is a QUIC stack on the same network that ignores the rules of our protocol.
type unknownPeer struct {
	*quic.Transport
	tls  *tls.Config
	conf *quic.Config
}

func newUnknownPeer(t *testing.T, l *lab, at string, certificates ...tls.Certificate) *unknownPeer {
	conn := l.bind(t, netip.MustParseAddrPort(at))
	s := &unknownPeer{
		Transport: &quic.Transport{Conn: conn},
		tls:       &tls.Config{NextProtos: []string{session.ALPN}, InsecureSkipVerify: true, Certificates: certificates},
		conf:      &quic.Config{EnableDatagrams: true, MaxIdleTimeout: time.Minute},
	}
	t.Cleanup(func() {
		s.Close()
		conn.Close()
	})
	return s
}

func (s *unknownPeer) dial(t *testing.T, e *Endpoint) (*quic.Conn, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.Dial(ctx, e.localAddr(), s.tls, s.conf)
}

// askForWelcome requests the welcome of a listener.
func askForWelcome(t *testing.T, conn *quic.Conn) error {
	t.Helper()
	stream, err := conn.OpenStream()
	if err != nil {
		return err
	}
	if _, err := stream.Write([]byte{session.WelcomeByte}); err != nil {
		return err
	}
	_, err = io.ReadFull(stream, make([]byte, 1))
	return err
}

// refused checks that the endpoint closed the connection of the unknown peer.
func refused(t *testing.T, conn *quic.Conn, err error) {
	t.Helper()
	if err != nil {
		return
	}
	select {
	case <-conn.Context().Done():
	case <-time.After(2 * patience):
		t.Error("the connection of the unknown peer is still up, want it closed")
	}
}

// certificateOf returns the certificate of peer, made with key.
func certificateOf(t *testing.T, key trust.Key, peer trust.Peer) tls.Certificate {
	t.Helper()
	member, err := trust.NewMember(key, peer, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := member.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	return *c
}

// selfSigned returns a self-signed certificate with the contents of a member's certificate.
func selfSigned(t *testing.T, key trust.Key, peer trust.Peer) tls.Certificate {
	t.Helper()
	template, err := x509.ParseCertificate(certificateOf(t, key, peer).Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return issue(t, template, &x509.Certificate{Subject: template.Subject}, nil)
}

// issue makes a certificate for a new key. authority signs the certificate; without one it is self-signed.
func issue(t *testing.T, template, issuer *x509.Certificate, authority ed25519.PrivateKey) tls.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if authority == nil {
		authority = private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, public, authority)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

// withUnknownPeer runs a scenario of one node and unknown peers. Afterwards the node must still
// accept a member, and must not have returned any other session from Accept.
func withUnknownPeer(s func(*testing.T, *lab, *Endpoint)) func(*testing.T) {
	return withUnknownPeerOver(Listen, s)
}

func withUnknownPeerOver(listen func(net.PacketConn, Config) (*Endpoint, error), s func(*testing.T, *lab, *Endpoint)) func(*testing.T) {
	return inBubble(listen, func(t *testing.T, l *lab) {
		robot := l.node(t, "robot")
		s(t, l, robot)
		accepted, _ := l.join(t, robot, l.node(t, "pc"))
		if got := accepted.Peer().Host; got != "pc" {
			t.Errorf("accepted: got %q, want the member", got)
		}
		time.Sleep(2 * session.HandshakeTimeout)
		synctest.Wait()
		places := placesOf(robot)
		places.mu.Lock()
		defer places.mu.Unlock()
		if n := len(places.pending); n != 0 {
			t.Errorf("pending handshakes: got %d, want none", n)
		}
	})
}

func TestGarbageIsIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		listen func(net.PacketConn, Config) (*Endpoint, error)
		begin  func(b []byte, i int) // makes the beginning look like a packet of the protocol
	}{
		"QUIC": {Listen, func(b []byte, i int) {
			if i%2 == 0 { // as a QUIC version 1 Initial packet
				copy(b, []byte{0xc0 | b[0]&0x0f, 0, 0, 0, 1, b[5] % 21})
			}
		}},
		"SCTP": {listenOverSCTP, func(b []byte, i int) {
			switch i % 3 {
			case 0:
				b[0], b[1] = 0xac, 1+b[1]%5 // a shim
			case 1:
				b[0] = 25 // a record with a connection id
			}
		}},
	} {
		t.Run(name, withUnknownPeerOver(c.listen, func(t *testing.T, l *lab, robot *Endpoint) {
			conn := l.bind(t, netip.MustParseAddrPort("10.0.1.1:999"))
			defer conn.Close()
			dice := mathrand.New(mathrand.NewPCG(1, 2))
			for i := range 2000 {
				b := make([]byte, dice.IntN(1400))
				for j := range b {
					b[j] = byte(dice.Uint32())
				}
				if len(b) > shimSize {
					c.begin(b, i)
				}
				if _, err := conn.WriteTo(b, robot.localAddr()); err != nil {
					t.Fatal(err)
				}
			}
			if lines := l.logs[robot].lines(""); len(lines) != 0 {
				t.Errorf("log: got %q, want nothing", lines)
			}
		}))
	}
}

func TestUnknownPeersAreRefused(t *testing.T) {
	pc := trust.Peer{Node: nodeOf("pc"), Host: "pc"}
	for _, c := range []struct {
		name        string
		certificate func(*testing.T, *lab) tls.Certificate
		quic        func(*unknownPeer)
		sctp        dtls.ClientOption
		want        []string // in the only log line
		wantOfQUIC  string
	}{
		{name: "WithoutCertificate", want: []string{"unknown peer refused"}, wantOfQUIC: "didn't provide a certificate"},
		{
			name:        "SelfSignedInAMembersName",
			certificate: func(t *testing.T, l *lab) tls.Certificate { return selfSigned(t, l.keys[0], pc) },
			want:        []string{"another network key", "host=pc"},
		}, {
			name:        "AnotherKeyInAMembersName",
			certificate: func(t *testing.T, l *lab) tls.Certificate { return certificateOf(t, l.keys[1], pc) },
			want:        []string{"another network key", "host=pc", "peer_network="},
		}, {
			name: "MembersCertificateWithoutItsPrivateKey",
			certificate: func(t *testing.T, l *lab) tls.Certificate {
				stolen := certificateOf(t, l.keys[0], pc)
				stolen.PrivateKey = certificateOf(t, l.keys[1], pc).PrivateKey
				return stolen
			},
			want: []string{"unknown peer refused"}, wantOfQUIC: "signature",
		}, {
			name:        "AnotherProtocol",
			certificate: func(t *testing.T, l *lab) tls.Certificate { return certificateOf(t, l.keys[0], pc) },
			quic:        func(s *unknownPeer) { s.tls.NextProtos = []string{"h3"} },
			sctp:        dtls.WithSupportedProtocols("webrtc"),
			want:        []string{"unknown peer refused"}, wantOfQUIC: "application protocol",
		}, {
			name:        "RefusingOurCertificate",
			certificate: func(t *testing.T, l *lab) tls.Certificate { return certificateOf(t, l.keys[0], pc) },
			quic:        func(s *unknownPeer) { s.tls.InsecureSkipVerify = false },
			sctp:        dtls.WithVerifyPeerCertificate(func([][]byte, [][]*x509.Certificate) error { return errors.New("no") }),
			want:        []string{"another network key"},
		},
	} {
		oneLine := func(t *testing.T, l *lab, robot *Endpoint, want ...string) {
			nobodyArrives(t, robot)
			lines := l.logs[robot].lines("")
			if len(lines) != 1 {
				t.Fatalf("log: got %q, want one line", lines)
			}
			for _, want := range append(want, "peer=10.0.1.1:999") {
				if !strings.Contains(lines[0], want) {
					t.Errorf("log line %q: want %q in it", lines[0], want)
				}
			}
		}
		t.Run(c.name+"/QUIC", withUnknownPeer(func(t *testing.T, l *lab, robot *Endpoint) {
			s := newUnknownPeer(t, l, "10.0.1.1:999")
			if c.certificate != nil {
				s.tls.Certificates = []tls.Certificate{c.certificate(t, l)}
			}
			if c.quic != nil {
				c.quic(s)
			}
			for range 3 {
				conn, err := s.dial(t, robot)
				if err == nil { // it has seen our certificate, and we not yet its own
					openEveryStream(conn)
				}
				refused(t, conn, err)
			}
			oneLine(t, l, robot, append(c.want, c.wantOfQUIC)...)
		}))
		t.Run(c.name+"/SCTP", withUnknownPeerOver(listenOverSCTP, func(t *testing.T, l *lab, robot *Endpoint) {
			var options []dtls.ClientOption
			if c.certificate != nil {
				options = append(options, dtls.WithCertificates(c.certificate(t, l)))
			}
			if c.sctp != nil {
				options = append(options, c.sctp)
			}
			for range 3 {
				if err := dialDTLS(t, l, robot, options...); err == nil {
					t.Error("the unknown peer received a message, want none")
				}
			}
			oneLine(t, l, robot, c.want...)
		}))
	}
}

// openEveryStream opens and fills as many streams as a peer allows, and counts them.
func openEveryStream(conn *quic.Conn) int {
	text := make([]byte, 4*session.StreamWindow)
	for n := 0; ; n++ {
		stream, err := conn.OpenUniStream()
		if err != nil {
			return n
		}
		go stream.Write(text)
	}
}

// A member that does not request the welcome is refused.
func TestMemberWithoutWelcomeIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(*testing.T, *quic.Conn)
	}{
		{"NoStream", func(*testing.T, *quic.Conn) {}},
		{"EveryOtherStream", func(t *testing.T, conn *quic.Conn) {
			if got := openEveryStream(conn); got != session.MaxStreams {
				t.Errorf("streams beside the control stream: got %d, want %d", got, session.MaxStreams)
			}
		}},
		{"WrongByte", func(t *testing.T, conn *quic.Conn) {
			stream, err := conn.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			stream.Write([]byte("GET / HTTP/1.1\r\n"))
		}},
		{"StreamEndsAtOnce", func(t *testing.T, conn *quic.Conn) {
			stream, err := conn.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			stream.Close()
		}},
	} {
		t.Run(c.name, withUnknownPeer(func(t *testing.T, l *lab, robot *Endpoint) {
			s := newUnknownPeer(t, l, "10.0.1.1:999", certificateOf(t, l.keys[0], trust.Peer{Node: nodeOf("odd"), Host: "odd"}))
			conn, err := s.dial(t, robot)
			if err != nil {
				t.Fatal(err)
			}
			c.open(t, conn)
			refused(t, conn, nil)
			nobodyArrives(t, robot)
		}))
	}
}

func TestPeerCannotOpenSecondControlStream(t *testing.T) {
	inBubble(Listen, func(t *testing.T, l *lab) {
		s := newUnknownPeer(t, l, "10.0.1.1:999", certificateOf(t, l.keys[0], trust.Peer{Node: nodeOf("odd"), Host: "odd"}))
		conn, err := s.dial(t, l.node(t, "robot"))
		if err == nil {
			err = askForWelcome(t, conn)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.OpenStream(); err == nil {
			t.Error("second stream: no error")
		}
	})(t)
}

// A dialler must refuse hostile acceptors.
func TestDiallerRefusesUnknownAcceptors(t *testing.T) {
	robot := trust.Peer{Node: nodeOf("robot"), Host: "robot"}
	for _, c := range []struct {
		name        string
		certificate func(*testing.T, *lab) tls.Certificate
		verify      error // result of the acceptor's check of our certificate
		want        error
	}{
		{"SelfSigned", func(t *testing.T, l *lab) tls.Certificate { return selfSigned(t, l.keys[0], robot) }, nil, trust.ErrWrongKey},
		{"AnotherKey", func(t *testing.T, l *lab) tls.Certificate { return certificateOf(t, l.keys[1], robot) }, nil, trust.ErrWrongKey},
		{"RefusedByAcceptor", func(t *testing.T, l *lab) tls.Certificate { return certificateOf(t, l.keys[0], robot) }, errors.New("no"), trust.ErrWrongKey},
		{"NoWelcome", func(t *testing.T, l *lab) tls.Certificate { return certificateOf(t, l.keys[0], robot) }, nil, session.ErrSilent},
	} {
		t.Run(c.name, inBubble(Listen, func(t *testing.T, l *lab) {
			s := newUnknownPeer(t, l, "10.0.1.1:999", c.certificate(t, l))
			s.tls.ClientAuth = tls.RequireAnyClientCert
			s.tls.VerifyConnection = func(tls.ConnectionState) error { return c.verify }
			if _, err := s.Listen(s.tls, s.conf); err != nil {
				t.Fatal(err)
			}
			pc := l.node(t, "pc")
			session, err := pc.Dial(t.Context(), Addrs{QUIC: s.Conn.LocalAddr()})
			if session != nil || !errors.Is(err, c.want) {
				t.Errorf("dial: got %v, %v, want %v", session, err, c.want)
			}
			if got, want := len(l.logs[pc].lines(trust.ErrWrongKey.Error())), 1; c.want == trust.ErrWrongKey && got != want {
				t.Errorf("log lines: got %d, want %d", got, want)
			}
		}))
	}
}
