package daemon

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"achbridge/cmd/achbridge/config"
	"achbridge/discovery"
)

// The node dials the peers of all sources in turn, so dialable keeps the announcements of each source separate.
func TestAnnouncementsOfEachSourceStaySeparate(t *testing.T) {
	at := netip.MustParseAddrPort("192.0.2.1:8076")
	found := []discovery.Peer{
		{Host: "krang", Node: "bb", Source: "mdns", By: at.Addr(), Addrs: []netip.AddrPort{at}},
		{Host: "krang", Node: "bb", Source: "mdns", By: netip.MustParseAddr("fe80::1%eth0"), Addrs: []netip.AddrPort{at}},
		{Host: "far", Node: "cc", Source: "mdns", By: at.Addr(), Far: []netip.AddrPort{at}},
		{Host: "zone", Source: "dns-sd", Addrs: []netip.AddrPort{at}},
		{Host: "listed", Source: discovery.SourceStatic},
	}
	var got []string
	for _, p := range dialable(found, Membership{}) {
		got = append(got, p.Host+" "+p.Source)
	}
	if want := []string{"krang 192.0.2.1", "krang fe80::1%eth0", "zone ", "listed "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHostBehindReflectorIsReportedWithFix(t *testing.T) {
	by, far := netip.MustParseAddr("192.168.1.1"), netip.MustParseAddrPort("10.9.0.2:8076")
	near, local := netip.MustParseAddrPort("192.168.1.20:8076"), netip.MustParseAddrPort("[fe80::2%eth0]:8076")
	for name, c := range map[string]struct {
		addrs []netip.AddrPort
		far   []netip.AddrPort
		by    netip.Addr
		told  bool
	}{
		"far alone":                          {nil, []netip.AddrPort{far}, by, true},
		"a link-local one of elsewhere":      {[]netip.AddrPort{local}, []netip.AddrPort{far}, by, true},
		"heard by its link-local address":    {[]netip.AddrPort{local}, []netip.AddrPort{far}, local.Addr(), false},
		"here as well":                       {[]netip.AddrPort{near}, []netip.AddrPort{far}, by, false},
		"here":                               {[]netip.AddrPort{near}, nil, by, false},
		"listed, and its name not looked up": {nil, nil, netip.Addr{}, false},
	} {
		text, fix, told := config.FarText(discovery.Peer{Host: "krang", Addrs: c.addrs, Far: c.far, By: c.by})
		if told != c.told || told && (!strings.Contains(text, "krang is announced at 10.9.0.2") || !strings.Contains(text, "192.168.1.1") || !strings.Contains(fix, "--peer 10.9.0.2")) {
			t.Errorf("%s: got %v, %q, %q", name, told, text, fix)
		}
	}
}
