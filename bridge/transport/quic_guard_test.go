package transport

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/transport/quic"
	"achbridge/bridge/transport/session"
)

func TestForgedAddressesDoNotBlockMembers(t *testing.T) {
	withUnknownPeer(func(t *testing.T, l *lab, robot *Endpoint) {
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 100 {
			at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 2, byte(i)}), forgedPort)
			s := newUnknownPeer(t, l, at.String())
			go s.Dial(ctx, robot.localAddr(), s.tls, s.conf)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		places := placesOf(robot)
		places.mu.Lock()
		pending := len(places.pending)
		places.mu.Unlock()
		if pending == 0 || pending > quic.RetryThreshold {
			t.Errorf("pending handshakes: got %d, want 1..%d", pending, quic.RetryThreshold)
		}
		l.join(t, robot, l.node(t, "planner")) // which takes one round trip more
		cancel()
		time.Sleep(3 * session.HandshakeTimeout)
		if lines := l.logs[robot].lines(""); len(lines) != 0 {
			t.Errorf("log: got %q, want nothing about forged addresses", lines)
		}
	})(t)
}
