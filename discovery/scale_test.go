package discovery

import (
	"fmt"
	"testing"

	"achbridge/testnet/need"
)

// TestTwentyHostsFindOneAnother is for ACHBRIDGE_LONG=1: forty sockets' worth of packets on one machine disturb
// the other tests.
func TestTwentyHostsFindOneAnother(t *testing.T) {
	need.Long(t)
	const n = 20
	l := newLab(t)
	l.addSwitch("sw0")
	counted := l.count("sw0")
	var nodes []*process
	for i := range n {
		h := l.addHost()
		h.plug("eth0", "sw0", fmt.Sprintf("10.0.0.%d/24", i+1))
		o := announcing(fmt.Sprintf("host%d", i), fmt.Sprintf("%02x", i+1))
		o.Watch = true
		for c := range 50 {
			o.Config.Self.Channels = append(o.Config.Self.Channels, Channel{fmt.Sprintf("channel%d", c), 16, 512})
		}
		nodes = append(nodes, startNode(t, h, o))
	}
	for _, p := range nodes {
		p.until("all the others", func(ps []Peer) bool { return len(ps) == n-1 })
	}
	packets := counted()
	t.Logf("%d multicast packets until all of %d hosts had found all", packets, n)
	if packets > 3000 {
		t.Errorf("got %d packets, want at most 3000", packets)
	}
	nodes[0].quit()
	for _, p := range nodes[1:] {
		p.until("one less", func(ps []Peer) bool { return len(ps) == n-2 })
	}
}
