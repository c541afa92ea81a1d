package transport

import (
	"context"
	"crypto/rand"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/sctp"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// sctpStranger dials with DTLS alone, and keeps none of our rules.
type sctpStranger struct {
	p       *sctpProtocol // its socket and no more
	options []dtls.ClientOption
}

func newSCTPStranger(t *testing.T, l *lab, at string) *sctpStranger {
	socket := newSCTPSocket(l.bind(t, netip.MustParseAddrPort(at)), resetter{})
	socket.admit = func(*sctpPath, net.Addr) bool { return false }
	socket.run(func(error) {})
	t.Cleanup(socket.close)
	return &sctpStranger{p: &sctpProtocol{socket: socket}, options: []dtls.ClientOption{
		dtls.WithInsecureSkipVerify(true), dtls.WithSupportedProtocols(session.ALPN), dtls.WithLoggerFactory(silentLogs()),
		dtls.WithExtendedMasterSecret(dtls.RequireExtendedMasterSecret),
	}}
}

// path begins an attempt that has a cookie.
func (s *sctpStranger) path(t *testing.T, e *Endpoint) *sctpPath {
	t.Helper()
	var key pathKey
	rand.Read(key.attempt[:])
	path := newSCTPPath(s.p.socket, key, shim{kind: kindToListener, attempt: key.attempt}, e.localAddr())
	s.p.socket.remember(path)
	t.Cleanup(func() { path.Close() })
	if _, err := s.p.knock(t.Context(), path, e.localAddr()); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *sctpStranger) dial(t *testing.T, e *Endpoint) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := dtls.ClientWithOptions(s.path(t, e), e.localAddr(), s.options...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 100))
	return err
}

// withSCTPStranger runs a scenario of one node and whoever comes, after which the
// node must still welcome a member and hold nothing of anybody else.
func withSCTPStranger(s func(*testing.T, *lab, *Endpoint)) func(*testing.T) {
	return inBubble(listenOverSCTP, func(t *testing.T, l *lab) {
		robot := l.node(t, "robot")
		s(t, l, robot)
		accepted, _ := l.join(t, robot, l.node(t, "pc"))
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
func held(e *Endpoint) (pending, paths int) {
	p := e.sctp.(*sctpProtocol)
	places := placesOf(e)
	places.mu.Lock()
	defer places.mu.Unlock()
	p.socket.mu.Lock()
	defer p.socket.mu.Unlock()
	return len(places.pending), len(p.socket.byAttempt)
}

func TestForgedAddressesCostNothingOverSCTP(t *testing.T) {
	withSCTPStranger(func(t *testing.T, l *lab, robot *Endpoint) {
		for i := range 100 {
			at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 2, byte(i)}), forgedPort)
			conn := l.bind(t, at)
			defer conn.Close()
			hello := append(appendShim(nil, shim{kind: kindKnock}), make([]byte, 200)...)
			conn.WriteTo(hello, robot.localAddr())
			hello[1] = kindToListener
			conn.WriteTo(hello, robot.localAddr())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if pending, paths := held(robot); pending+paths != 0 {
			t.Errorf("held: got %d handshakes and %d paths, want nothing", pending, paths)
		}
	})(t)
}

// A host that can be reached may begin handshakes, and never finish them.
func TestHalfOpenHandshakesAreBoundedOverSCTP(t *testing.T) {
	withSCTPStranger(func(t *testing.T, l *lab, robot *Endpoint) {
		s := newSCTPStranger(t, l, "10.0.1.1:999")
		for range maxGreetings + 20 {
			path := s.path(t, robot)
			go func() { // parts of messages that never become whole
				part := []byte{22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0x03, 0xf4, 1, 0xff, 0, 0, 0, 0, 0, 0, 1, 0, 0x03, 0xe8}
				path.WriteTo(append(part, make([]byte, 1000)...), robot.localAddr())
			}()
			if pending, paths := held(robot); pending > maxGreetings || paths > maxGreetings+1 {
				t.Fatalf("held: got %d handshakes and %d paths, want at most %d", pending, paths, maxGreetings)
			}
		}
		time.Sleep(greetingLife + 2*oneWay)
		synctest.Wait()
		if pending, paths := held(robot); pending+paths != 0 {
			t.Errorf("held: got %d handshakes and %d paths, want none after %v", pending, paths, greetingLife)
		}
	})(t)
}

func TestForgedResetDoesNotEndASession(t *testing.T) {
	inBubble(listenOverSCTP, func(t *testing.T, l *lab) {
		robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
		_, pc := l.join(t, robotEnd, pcEnd)
		conn := l.bind(t, netip.MustParseAddrPort("10.0.1.1:999"))
		defer conn.Close()
		theirs := linkOf(pcEnd).path.outgoing()
		for _, forged := range []proof{{}, resetter{[]byte("another node")}.token(theirs)} {
			conn.WriteTo(appendShim(nil, shim{kind: kindReset, proof: forged}), pcEnd.localAddr())
		}
		time.Sleep(time.Second)
		if err := pc.Err(); err != nil {
			t.Errorf("err: got %v, want none", err)
		}
	})(t)
}

// Of a peer that is not known only so many bytes get to DTLS, whatever they are. A member
// that is known may send as many as it likes.
func TestNoMoreThanTheAllowanceOfAStrangerIsLookedAt(t *testing.T) {
	p := newSCTPPath(nil, pathKey{}, shim{}, nil)
	passes := func(size int) bool {
		before := len(p.in)
		p.deliver(make([]byte, size), nil)
		return len(p.in) > before
	}
	for sent := 0; sent < strangerAllowance-4000; sent += 1000 {
		if !passes(1000) {
			t.Fatalf("a packet after %d bytes: not looked at", sent)
		}
	}
	for range 4 {
		passes(1000)
	}
	if passes(1000) || passes(1) {
		t.Errorf("a packet after %d bytes: looked at, want it left out", strangerAllowance)
	}
	p.known.Store(true)
	if !passes(1000) {
		t.Error("a packet of a member: not looked at")
	}
}

// Who names no application protocol at all is not taken for one of us, even with a
// certificate of ours: it may be meant for something else. Without an extended master
// secret somebody between two ends could make them believe that they speak to one
// another (RFC 7627).
func TestMemberThatSpeaksOtherDTLSIsRefused(t *testing.T) {
	for name, option := range map[string]dtls.ClientOption{
		"NoProtocol":             dtls.WithExtendedMasterSecret(dtls.RequireExtendedMasterSecret),
		"NoExtendedMasterSecret": dtls.WithExtendedMasterSecret(dtls.DisableExtendedMasterSecret),
	} {
		t.Run(name, withSCTPStranger(func(t *testing.T, l *lab, robot *Endpoint) {
			s := newSCTPStranger(t, l, "10.0.1.1:999")
			path := s.path(t, robot)
			options := []dtls.ClientOption{
				dtls.WithInsecureSkipVerify(true), dtls.WithLoggerFactory(silentLogs()), option,
				dtls.WithCertificates(certificateOf(t, l.keys[0], trust.Peer{Node: nodeOf("odd"), Host: "odd"})),
				dtls.WithConnectionIDGenerator(func() []byte { return path.id[:] }),
			}
			if name != "NoProtocol" {
				options = append(options, dtls.WithSupportedProtocols(session.ALPN))
			}
			conn, err := dtls.ClientWithOptions(path, robot.localAddr(), options...)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err = conn.HandshakeContext(ctx); err == nil {
				var token []byte
				if token, err = sctp.GenerateOutOfBandToken(sctpOptions(conn, sctpMTU)...); err != nil {
					t.Fatal(err)
				}
				conn.Write(appendHello(nil, hello{init: token, mtu: sctpNarrow}))
				_, err = hearHello(ctx, conn, session.HandshakeTimeout)
			}
			if err == nil {
				t.Error("it is welcome")
			}
			nobodyArrives(t, robot)
		}))
	}
}
