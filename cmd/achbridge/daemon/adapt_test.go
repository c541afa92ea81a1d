package daemon

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/discovery"
)

func TestOnlyMembersAreDialled(t *testing.T) {
	self := Membership{node: "aa", Networks: []string{"11111111", "33333333"}}
	addr := netip.MustParseAddrPort("192.0.2.1:8076")
	found := []discovery.Peer{
		{Host: "krang", Node: "bb", Network: "11111111", Addrs: []netip.AddrPort{addr}, Source: "mdns"},
		{Host: "stranger", Node: "cc", Network: "22222222", Addrs: []netip.AddrPort{addr}},
		{Host: "pc", Node: "aa", Network: "11111111", Addrs: []netip.AddrPort{addr}},
		{Host: "changing", Node: "dd", Network: "33333333", Addrs: []netip.AddrPort{addr}},
		{Host: "listed", Addrs: []netip.AddrPort{addr}, Source: discovery.SourceStatic},
	}
	got := dialable(found, self)
	if len(got) != 3 || got[0].Host != "krang" || got[1].Host != "changing" || got[2].Host != "listed" {
		t.Fatalf("got %+v, want krang, changing and listed", got)
	}
	if got[0].Static || got[1].Static || !got[2].Static || got[0].Addrs[0].String() != "192.0.2.1:8076" {
		t.Errorf("got %+v, want only listed to be static, and the addresses as found", got)
	}
	if everybody := Members(found, Membership{}); len(everybody) != 5 {
		t.Errorf("got %d peers without a network of our own, want all 5", len(everybody))
	}
}

func TestPeersAreDialledAtAnnouncedPorts(t *testing.T) {
	for want, p := range map[string]discovery.Peer{
		"192.0.2.1:8076 192.0.2.1:8077": {},
		"192.0.2.1:9000 192.0.2.1:9009": {Port: 8076, Ports: discovery.Ports{QUIC: 9000, SCTP: 9009}},
		"192.0.2.1:9000 nowhere":        {Port: 8076, Ports: discovery.Ports{QUIC: 9000}},
		"nowhere 192.0.2.1:9009":        {Port: 8076, Ports: discovery.Ports{SCTP: 9009}},
	} {
		p.Addrs = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:8076")}
		p.Transport = "sctp"
		got := dialable([]discovery.Peer{p}, Membership{})[0]
		at := transport.Addrs{QUIC: got.Addrs[0].QUIC}.String() + " " + transport.Addrs{SCTP: got.Addrs[0].SCTP}.String()
		p.Channels = []discovery.Channel{{Name: "imu"}}
		if first := AnnouncedChannels([]discovery.Peer{p})[0].Addrs[0]; !strings.Contains(want, first) || first == "nowhere" {
			t.Errorf("channel's address: got %s, want the first of %s", first, want)
		}
		if at != want || got.Over != "sctp" {
			t.Errorf("got %s over %s, want %s over sctp", at, got.Over, want)
		}
	}
	moved := discovery.Peer{Port: 9000, Ports: discovery.Ports{QUIC: 9000}, Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:8076")}}
	if a := dialable([]discovery.Peer{moved}, Membership{})[0].Addrs[0]; a.SCTP == nil || a.QUIC.String() != "192.0.2.1:8076" {
		t.Errorf("listed at another port than announced: got %+v, want both addresses", a)
	}
}

// A host without the key announces krang under the name nobody, and another host named krang.
func TestAnnouncedChannelsUseProvedHostNames(t *testing.T) {
	announced := []status.RemoteChannel{
		{Host: "arm", Node: "aa", Channel: "imu"},
		{Host: "krang", Node: "00", Channel: "imu"},
		{Host: "krang", Node: "cc", Channel: "imu"},
		{Host: "nobody", Node: "cc", Channel: "imu"},
	}
	got := asProved(announced, map[string]string{"cc": "krang"})
	want := []status.RemoteChannel{
		{Host: "arm", Node: "aa", Channel: "imu"},
		{Host: "krang", Node: "00", Channel: "imu", Unproved: true},
		{Host: "krang", Node: "cc", Channel: "imu"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
