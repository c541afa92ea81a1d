package discovery

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

func testLink(index int, name string, prefixes ...string) link {
	l := link{iface: net.Interface{Index: index, Name: name, Flags: net.FlagUp}}
	for _, p := range prefixes {
		l.prefixes = append(l.prefixes, netip.MustParsePrefix(p))
	}
	return l
}

func TestAddressesAreRanked(t *testing.T) {
	eth := testLink(2, "eth0", "10.0.0.1/24", "fe80::1/64", "fd00::1/64")
	wifi := testLink(3, "wlan0", "10.1.0.1/24")
	docker := testLink(4, "docker0", "172.17.0.1/16")
	links := []link{eth, wifi, docker}
	for name, c := range map[string]struct {
		from  string
		via   link
		addrs []string
		want  []string
	}{
		"the one heard, its subnet, another's, a router's": {"10.0.0.2", eth,
			[]string{"192.0.2.7", "10.1.0.2", "10.0.0.9", "10.0.0.2"},
			[]string{"10.0.0.2:1", "10.0.0.9:1", "10.1.0.2:1", "192.0.2.7:1"}},
		"link-local with zone after the subnet": {"fe80::2", eth,
			[]string{"10.0.0.2", "fe80::2", "fd00::2", "10.1.0.2"},
			[]string{"10.0.0.2:1", "[fd00::2]:1", "[fe80::2%eth0]:1", "10.1.0.2:1"}},
		"the source alone will do":           {"10.0.0.2", eth, nil, []string{"10.0.0.2:1"}},
		"another host's docker0 is ours too": {"10.0.0.2", eth, []string{"172.17.0.1", "10.0.0.2"}, []string{"10.0.0.2:1"}},
		"two subnets on one cable":           {"192.0.2.7", eth, []string{"192.0.2.7", "192.0.2.8"}, []string{"192.0.2.7:1", "192.0.2.8:1"}},
		"a reflector's own is not announced": {"10.0.0.9", eth, []string{"192.0.2.7", "fe80::7"}, []string{"[fe80::7%eth0]:1", "192.0.2.7:1"}},
		"a node of our own host":             {"10.0.0.1", eth, []string{"10.0.0.1", "172.17.0.1"}, []string{"10.0.0.1:1", "172.17.0.1:1"}},
		"nonsense": {"10.0.0.2", eth, []string{"0.0.0.0", "127.0.0.1", "224.0.0.1", "::", "::1", "ff02::1", "255.255.255.255", "10.0.0.2"},
			[]string{"10.0.0.2:1"}},
		"mapped": {"10.0.0.2", eth, []string{"::ffff:10.0.0.2"}, []string{"10.0.0.2:1"}},
	} {
		r := record{port: 1}
		for _, a := range c.addrs {
			r.addrs = append(r.addrs, netip.MustParseAddr(a))
		}
		var got []netip.AddrPort
		for _, a := range (packetSource{netip.MustParseAddr(c.from), c.via, links}).addresses(r) {
			got = append(got, a.AddrPort)
		}
		if !slices.Equal(got, ports(c.want...)) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestLoopbackAddressIsUsedOnlyViaLoopback(t *testing.T) {
	lo := testLink(1, "lo", "127.0.0.1/8")
	got := packetSource{netip.MustParseAddr("127.0.0.1"), lo, []link{lo}}.addresses(record{port: 1})
	if len(got) != 1 || got[0].String() != "127.0.0.1:1" {
		t.Errorf("got %v, want 127.0.0.1:1", got)
	}
}

func TestSameSocketsComparesFamilies(t *testing.T) {
	old := []link{testLink(2, "eth0", "10.0.0.1/24")}
	down := testLink(2, "eth0", "10.0.0.1/24")
	down.iface.Flags = 0
	for name, c := range map[string]struct {
		now           []link
		same, sockets bool
	}{
		"nothing":         {[]link{testLink(2, "eth0", "10.0.0.1/24")}, true, true},
		"another address": {[]link{testLink(2, "eth0", "10.0.0.7/24")}, false, true},
		"cable out":       {[]link{down}, false, true},
		"IPv6 as well":    {[]link{testLink(2, "eth0", "10.0.0.1/24", "fe80::1/64")}, false, false},
		"made anew":       {[]link{testLink(9, "eth0", "10.0.0.1/24")}, false, false},
		"one more":        {append(slices.Clone(old), testLink(3, "wlan0")), false, false},
		"none":            {nil, false, false},
	} {
		if got := sameLinks(old, c.now); got != c.same {
			t.Errorf("%s: got same %v, want %v", name, got, c.same)
		}
		if got := sameSockets(old, c.now); got != c.sockets {
			t.Errorf("%s: got same sockets %v, want %v", name, got, c.sockets)
		}
	}
}
