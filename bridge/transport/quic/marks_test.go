package quic

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/via"
)

func TestMarksOfSessionsWithOneAddress(t *testing.T) {
	at, other := netip.MustParseAddrPort("10.0.0.1:8076"), netip.MustParseAddrPort("10.0.0.1:8077")
	for _, c := range []struct {
		name     string
		sessions []mark
		want     via.DSCP // result of lookup for the address at
	}{
		{"none", nil, via.CS0},
		{"one", []mark{{at, via.CS6}}, via.CS6},
		{"other port", []mark{{at, via.CS6}, {other, via.CS1}}, via.CS6},
		{"equal", []mark{{at, via.AF41}, {at, via.AF41}}, via.AF41},
		{"different", []mark{{at, via.AF41}, {at, via.CS6}}, via.CS0},
		{"two of three equal", []mark{{at, via.CS6}, {at, via.AF41}, {at, via.CS6}}, via.CS0},
	} {
		m := newMarks(session.NewMarking(slog.New(slog.DiscardHandler)))
		for _, s := range c.sessions {
			m.links[&link{}] = s
		}
		m.publish()
		for _, form := range []string{"10.0.0.1:8076", "[::ffff:10.0.0.1]:8076"} {
			if got := m.lookup(net.UDPAddrFromAddrPort(netip.MustParseAddrPort(form))); got != c.want {
				t.Errorf("%s: to %s: got %v, want %v", c.name, form, got, c.want)
			}
		}
	}
}
