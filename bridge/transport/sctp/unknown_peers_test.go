package sctp

import (
	"context"
	"crypto/rand"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/sctp"

	"achbridge/bridge/transport/session"
)

// unknownPeer dials with plain DTLS and ignores the rules of our protocol.
type unknownPeer struct {
	p       *Protocol // only the socket of p is used
	options []dtls.ClientOption
}

func newUnknownPeer(t *testing.T, l *lab, at string) *unknownPeer {
	socket := newSocket(l.bind(t, at), statelessReset{}, nil)
	socket.admit = func(*path, net.Addr) bool { return false }
	socket.run(func(error) {})
	t.Cleanup(socket.close)
	return &unknownPeer{p: &Protocol{socket: socket}, options: []dtls.ClientOption{
		dtls.WithInsecureSkipVerify(true), dtls.WithSupportedProtocols(session.ALPN), dtls.WithLoggerFactory(silentLogs()),
		dtls.WithExtendedMasterSecret(dtls.RequireExtendedMasterSecret),
	}}
}

// path returns the path of a new attempt that has a cookie.
func (s *unknownPeer) path(t *testing.T, e *node) *path {
	t.Helper()
	var key pathKey
	rand.Read(key.attempt[:])
	path := newPath(s.p.socket, key, shim{kind: kindToListener, attempt: key.attempt}, e.addr)
	s.p.socket.remember(path)
	t.Cleanup(func() { path.Close() })
	if _, err := s.p.requestCookie(t.Context(), path, e.addr); err != nil {
		t.Fatal(err)
	}
	return path
}

// withUnknownPeer runs a scenario of one node and unknown peers. Afterwards the node must still
// accept a member, and must not keep any state of other peers.
func withUnknownPeer(s func(*testing.T, *lab, *node)) func(*testing.T) {
	return inBubble(func(t *testing.T, l *lab) {
		robot := l.node(t, "robot", "1")
		s(t, l, robot)
		accepted, _ := l.join(t, robot, l.node(t, "pc", "2"))
		if got := accepted.Peer().Host; got != "pc" {
			t.Errorf("accepted: got %q, want the member", got)
		}
		time.Sleep(2 * session.HandshakeTimeout)
		synctest.Wait()
		if pending, paths := held(robot); pending != 0 || paths != 1 {
			t.Errorf("held: got %d handshakes and %d paths, want only the member's path", pending, paths)
		}
	})
}

// held returns how many handshakes are pending, and how many paths there are.
func held(n *node) (pending, paths int) {
	n.socket.mu.Lock()
	defer n.socket.mu.Unlock()
	return int(n.pending.Load()), len(n.socket.byAttempt)
}

func TestForgedAddressesUseNoState(t *testing.T) {
	withUnknownPeer(func(t *testing.T, l *lab, robot *node) {
		for i := range 100 {
			from := &net.UDPAddr{IP: net.IPv4(10, 0, 2, byte(i)), Port: 666}
			for _, kind := range []byte{kindInitial, kindToListener} {
				l.forge(from, robot.addr, append(appendShim(nil, shim{kind: kind}), make([]byte, 200)...))
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if pending, paths := held(robot); pending+paths != 0 {
			t.Errorf("held: got %d handshakes and %d paths, want nothing", pending, paths)
		}
	})(t)
}

func TestForgedResetDoesNotEndASession(t *testing.T) {
	inBubble(func(t *testing.T, l *lab) {
		robotEnd, pcEnd := l.node(t, "robot", "1"), l.node(t, "pc", "2")
		_, pc := l.join(t, robotEnd, pcEnd)
		conn := l.bind(t, "10.0.1.1:999")
		defer conn.Close()
		theirs := pcEnd.link().path.outgoing()
		for _, forged := range []proof{{}, statelessReset{[]byte("another node")}.token(theirs)} {
			conn.WriteTo(appendShim(nil, shim{kind: kindReset, proof: forged}), pcEnd.addr)
		}
		time.Sleep(time.Second)
		if err := pc.Err(); err != nil {
			t.Errorf("err: got %v, want none", err)
		}
	})(t)
}

// Only a limited number of bytes of an unknown peer must reach DTLS. A known member has no
// limit.
func TestBytesOfUnknownPeerAreLimited(t *testing.T) {
	p := newPath(nil, pathKey{}, shim{}, nil)
	passes := func(size int) bool {
		before := len(p.in)
		p.deliver(make([]byte, size), nil)
		return len(p.in) > before
	}
	for sent := 0; sent < unknownPeerByteLimit-4000; sent += 1000 {
		if !passes(1000) {
			t.Fatalf("a packet after %d bytes: dropped, want it processed", sent)
		}
	}
	for range 4 {
		passes(1000)
	}
	if passes(1000) || passes(1) {
		t.Errorf("a packet after %d bytes: processed, want it dropped", unknownPeerByteLimit)
	}
	p.isKnown.Store(true)
	if !passes(1000) {
		t.Error("a packet of a member: dropped, want it processed")
	}
}

// A peer without an application protocol (ALPN) must be refused, even with a certificate of our
// network, which may be for another purpose. Without an extended master secret a man in the
// middle could make two ends believe that they are connected to each other (RFC 7627).
func TestMemberWithOtherDTLSSettingsIsRefused(t *testing.T) {
	for name, option := range map[string]dtls.ClientOption{
		"NoProtocol":             dtls.WithExtendedMasterSecret(dtls.RequireExtendedMasterSecret),
		"NoExtendedMasterSecret": dtls.WithExtendedMasterSecret(dtls.DisableExtendedMasterSecret),
	} {
		t.Run(name, withUnknownPeer(func(t *testing.T, l *lab, robot *node) {
			s := newUnknownPeer(t, l, "10.0.1.1:999")
			path := s.path(t, robot)
			options := []dtls.ClientOption{
				dtls.WithInsecureSkipVerify(true), dtls.WithLoggerFactory(silentLogs()), option,
				dtls.WithCertificates(l.certificate(t, "odd")),
				dtls.WithConnectionIDGenerator(func() []byte { return path.id[:] }),
			}
			if name != "NoProtocol" {
				options = append(options, dtls.WithSupportedProtocols(session.ALPN))
			}
			conn, err := dtls.ClientWithOptions(path, robot.addr, options...)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err = conn.HandshakeContext(ctx); err == nil {
				var token []byte
				if token, err = sctp.GenerateOutOfBandToken(associationOptions(conn, wideMTU)...); err != nil {
					t.Fatal(err)
				}
				conn.Write(appendHello(nil, hello{init: token, mtu: narrowMTU}))
				_, err = readHello(ctx, conn, session.HandshakeTimeout)
			}
			if err == nil {
				t.Error("the member got a welcome, want it refused")
			}
			if len(robot.arrivals) != 0 {
				t.Error("the session of the member was accepted, want it refused")
			}
		}))
	}
}
