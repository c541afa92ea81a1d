package transport

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
)

func TestForgedAddressesDoNotKeepMembersOut(t *testing.T) {
	withStranger(func(t *testing.T, l *lab, robot *Endpoint) {
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 100 {
			at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 2, byte(i)}), forgedPort)
			s := newStranger(t, l, at.String())
			go s.Dial(ctx, robot.LocalAddr(), s.tls, s.conf)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		guard := robot.quic.(*quicProtocol).guard
		guard.mu.Lock()
		pending := guard.pending
		guard.mu.Unlock()
		if pending == 0 || pending > crowd {
			t.Errorf("pending handshakes: got %d, want 1..%d", pending, crowd)
		}
		l.join(t, robot, l.node(t, "planner")) // which takes one round trip more
		cancel()
		time.Sleep(3 * handshakeTimeout)
		if lines := l.logs[robot].lines(""); len(lines) != 0 {
			t.Errorf("log: got %q, want nothing about addresses nobody is at", lines)
		}
	})(t)
}

func TestOneHostCannotTakeAllHandshakes(t *testing.T) {
	guard := newQUICGuard(newRefusals(slog.New(slog.DiscardHandler), func() string { return "" }))
	addr := func(host, port int) net.Addr { return &net.UDPAddr{IP: net.IPv4(10, 0, byte(host), 1), Port: port} }
	admit := func(host, port int, proved bool) (context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := guard.admit(ctx, &quic.ClientInfo{RemoteAddr: addr(host, port), AddrVerified: proved})
		return cancel, err
	}
	var ends []context.CancelFunc
	for i := range maxPendingPerHost {
		end, err := admit(1, i, true)
		if err != nil {
			t.Fatalf("handshake %d: %v", i, err)
		}
		ends = append(ends, end)
	}
	if _, err := admit(1, 99, true); err == nil {
		t.Error("one host more than its share: no error")
	}
	if _, err := admit(1, 99, false); err != nil {
		t.Errorf("unproved address: got %v: it must not count for that host", err)
	}
	ends[0]()
	until(t, "the ended handshake makes room", func() bool {
		_, err := admit(1, 7, true)
		return err == nil
	})
}
