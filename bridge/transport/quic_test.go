package transport

import (
	"strings"
	"testing"

	"achbridge/bridge/trust"
)

// A member may announce a datagram size that is too small for any frame. Neither side must
// establish a session then.
func TestPeerWithoutDatagramsIsRefused(t *testing.T) {
	withUnknownPeer(func(t *testing.T, l *lab, robot *Endpoint) {
		s := newUnknownPeer(t, l, "10.0.1.1:999", certificateOf(t, l.keys[0], trust.Peer{Node: nodeOf("odd"), Host: "odd"}))
		s.conf.EnableDatagrams = false // quic-go has no other way to announce a smaller size
		conn, err := s.dial(t, robot)
		if err == nil {
			err = askForWelcome(t, conn)
		}
		if err == nil || !strings.Contains(err.Error(), "not achbridge") {
			t.Errorf("got %v, want that it is not achbridge", err)
		}
	})(t)
}
