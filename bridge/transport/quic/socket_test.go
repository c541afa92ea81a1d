package quic

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/via"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// quietPair returns a quietSocket and a plain socket of the same network on the loopback interface.
func quietPair(t testing.TB, network, host string) (*quietSocket, *net.UDPConn) {
	t.Helper()
	var pair [2]*net.UDPConn
	for i := range pair {
		conn, err := net.ListenPacket(network, net.JoinHostPort(host, "0"))
		if err != nil {
			t.Skipf("this host has no %s at %s: %v", network, host, err)
		}
		t.Cleanup(func() { conn.Close() })
		pair[i] = conn.(*net.UDPConn)
		pair[i].SetDeadline(await.Deadline())
	}
	s, ok := quiet(pair[0], func(netip.Addr) bool { return false }, session.NewMarking(slog.New(slog.DiscardHandler))).(*quietSocket)
	if !ok {
		t.Fatal("got the UDP socket unchanged, want a quietSocket")
	}
	return s, pair[1]
}

func newMessages(n int) []ipv4.Message {
	ms := make([]ipv4.Message, n)
	for i := range ms {
		ms[i].Buffers, ms[i].OOB = [][]byte{make([]byte, 100)}, make([]byte, 128)
	}
	return ms
}

func TestQuietSocketMatchesUDPConn(t *testing.T) {
	for _, c := range []struct{ network, bind, peer string }{
		{"udp4", "127.0.0.1", "127.0.0.1"}, {"udp6", "::1", "::1"}, {"udp", "", "127.0.0.1"}, {"udp", "", "::1"},
	} {
		t.Run(c.network+" "+c.peer, func(t *testing.T) {
			s, plain := quietPair(t, c.network, c.bind)
			to := *plain.LocalAddr().(*net.UDPAddr)
			to.IP = net.ParseIP(c.peer)
			if n, _, err := s.WriteMsgUDP([]byte("there"), nil, &to); n != 5 || err != nil {
				t.Fatalf("write: got %d, %v, want 5", n, err)
			}
			buf := make([]byte, 100)
			n, from, err := plain.ReadFromUDP(buf)
			if err != nil || string(buf[:n]) != "there" || from.Port != s.LocalAddr().(*net.UDPAddr).Port || !from.IP.Equal(to.IP) {
				t.Fatalf("got %q from %v, %v, want there from %v", buf[:n], from, err, s.LocalAddr())
			}
			for _, text := range []string{"back", "and", "again"} {
				if _, err := plain.WriteToUDP([]byte(text), from); err != nil {
					t.Fatal(err)
				}
			}
			ms := newMessages(8)
			for got, want := 0, []string{"back", "and", "again"}; got < len(want); {
				n, err := s.ReadBatch(ms, 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range ms[:n] {
					if text := string(m.Buffers[0][:m.N]); text != want[got] || m.Addr.String() != to.String() {
						t.Errorf("got %q from %v, want %q from %v", text, m.Addr, want[got], &to)
					}
					got++
				}
			}
		})
	}
}

func TestQuietSocketReturnsSendErrors(t *testing.T) {
	s, plain := quietPair(t, "udp4", "127.0.0.1")
	to := plain.LocalAddr().(*net.UDPAddr)
	if _, _, err := s.WriteMsgUDP(make([]byte, 1<<17), nil, to); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("too large: got %v, want EMSGSIZE", err)
	}
	if _, _, err := s.WriteMsgUDP([]byte("x"), nil, &net.UDPAddr{IP: net.IPv6loopback, Port: to.Port}); err == nil {
		t.Error("an IPv4 socket sent to an IPv6 address")
	}
	s.Close()
	if _, _, err := s.WriteMsgUDP([]byte("x"), nil, to); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: write: got %v, want net.ErrClosed", err)
	}
	if _, err := s.ReadBatch(newMessages(1), 0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: read: got %v, want net.ErrClosed", err)
	}
}

func TestQuietSocketAllocatesNothingForSamePeer(t *testing.T) {
	s, plain := quietPair(t, "udp4", "127.0.0.1")
	to, from, ms := plain.LocalAddr().(*net.UDPAddr), s.LocalAddr().(*net.UDPAddr).AddrPort(), newMessages(8)
	text := []byte("there")
	exchange := func() {
		if _, _, err := s.WriteMsgUDP(text, nil, to); err != nil {
			t.Fatal(err)
		}
		if _, err := plain.WriteToUDPAddrPort(text, from); err != nil {
			t.Fatal(err)
		}
		if n, err := s.ReadBatch(ms, 0); n != 1 || err != nil {
			t.Fatalf("got %d packets, %v, want 1", n, err)
		}
	}
	for _, d := range []via.DSCP{via.CS0, via.CS6} {
		s.marks.links[&link{}] = mark{addrPort(to), d}
		s.marks.publish()
		exchange()
		if got := testing.AllocsPerRun(100, exchange); got > 0 {
			t.Errorf("%v: got %v allocations a packet, want none", d, got)
		}
		clear(s.marks.links)
	}
}

// A host that is handed over to another access point has no address for a moment.
func TestQuietSocketToleratesShortLossOfNetwork(t *testing.T) {
	s := socketWithoutNetwork(t)
	nowhere := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9} // RFC 5737: for documentation
	send := func() error {
		_, _, err := s.WriteMsgUDP([]byte("x"), nil, nowhere)
		return err
	}
	s.hasSession = func(netip.Addr) bool { return false }
	if err := send(); !errors.Is(err, unix.ENETUNREACH) {
		t.Fatalf("without a session: got %v, want ENETUNREACH", err)
	}
	var hasSession atomic.Bool
	hasSession.Store(true)
	s.hasSession = func(netip.Addr) bool { return hasSession.Load() }
	began := time.Now()
	await.True(t, "the session is given up", func() bool { return send() != nil })
	if kept := time.Since(began); kept < refusedMost {
		t.Errorf("a session was kept for %v without network, want %v", kept, refusedMost)
	}
	hasSession.Store(false)
	await.True(t, "the packets of a session that has ended are let go", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.refused) == 0
	})
}

// socketWithoutNetwork returns a socket in a network namespace without routes.
func socketWithoutNetwork(t *testing.T) *quietSocket {
	t.Helper()
	type made struct {
		conn net.PacketConn
		err  error
	}
	result := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its network namespace
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err != nil {
			result <- made{nil, fmt.Errorf("network namespace: %w", err)}
			return
		}
		conn, err := net.ListenPacket("udp4", ":0")
		result <- made{conn, err}
	}()
	m := <-result
	if errors.Is(m.err, unix.EPERM) {
		need.Missing(t, m.err.Error()+": run as root")
	} else if m.err != nil {
		t.Fatal(m.err)
	}
	t.Cleanup(func() { m.conn.Close() })
	return quiet(m.conn, nil, session.NewMarking(slog.New(slog.DiscardHandler))).(*quietSocket)
}

// The kernel refuses to send, for example because no route exists. The error does not name the system call.
func TestSendErrorOmitsSystemCall(t *testing.T) {
	err := causeOf(&quic.TransportError{ErrorCode: quic.InternalError, ErrorMessage: "write udp 10.0.0.1:1->10.0.0.2:2: sendmsg: network is unreachable"})
	if got, want := err.Error(), "nothing can be sent to the peer: network is unreachable"; got != want || !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %q, want %q, of a session that is closed", got, want)
	}
}
