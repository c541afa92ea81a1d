package config

import (
	"net/netip"
	"testing"
)

// IPv4-mapped IPv6 addresses become IPv4, since clients' addresses are IPv4 where possible.
func TestParseAchdClientNetwork(t *testing.T) {
	for text, host := range map[string]string{
		"192.168.1.0/24": "192.168.1.7", "192.168.1.7": "192.168.1.7", "::ffff:192.168.1.7": "192.168.1.7",
		"::ffff:192.168.1.0/120": "192.168.1.7", "fd00::/64": "fd00::7",
	} {
		if p, err := parseNetwork(text); err != nil || !p.Contains(netip.MustParseAddr(host)) {
			t.Errorf("%s: got %v, %v, want a network with %s", text, p, err, host)
		}
	}
	for _, text := range []string{"", "robot", "192.168.1.0/33", "::ffff:0:0/90", "fe80::1%eth0"} {
		if p, err := parseNetwork(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, p)
		}
	}
}
