package daemon

import (
	"context"
	"net"
	"net/netip"
	"testing"
)

func TestAchdIsDialledAtAddressOfMDNSName(t *testing.T) {
	addrOf := func(_ context.Context, name string) (netip.Addr, bool) {
		return netip.MustParseAddr("10.1.0.2"), name == "krang.local"
	}
	var dialled string
	dial := dialAchd(addrOf, func(_ context.Context, network, address string) (net.Conn, error) {
		dialled = network + " " + address
		return nil, net.ErrClosed
	})
	for address, want := range map[string]string{
		"krang.local:8077": "tcp 10.1.0.2:8077",
		"other.local:8076": "tcp other.local:8076",
		"krang:8076":       "tcp krang:8076",
		"[fe80::1]:8076":   "tcp [fe80::1]:8076",
	} {
		if _, _ = dial(t.Context(), "tcp", address); dialled != want {
			t.Errorf("%s: dialled %q, want %q", address, dialled, want)
		}
	}
}
