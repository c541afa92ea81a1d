package main

import (
	"net/netip"
	"testing"

	"achbridge/discovery"
)

func TestOnlyMembersAreDialled(t *testing.T) {
	self := discovery.Peer{Host: "pc", Node: "aa", Network: "11111111"}
	addr := netip.MustParseAddrPort("192.0.2.1:8076")
	found := []discovery.Peer{
		{Host: "krang", Node: "bb", Network: "11111111", Addrs: []netip.AddrPort{addr}, Source: discovery.SourceMDNS},
		{Host: "stranger", Node: "cc", Network: "22222222", Addrs: []netip.AddrPort{addr}},
		{Host: "pc", Node: "aa", Network: "11111111", Addrs: []netip.AddrPort{addr}},
		{Host: "listed", Addrs: []netip.AddrPort{addr}, Source: discovery.SourceStatic},
	}
	got := dialable(found, self)
	if len(got) != 2 || got[0].Host != "krang" || got[1].Host != "listed" {
		t.Fatalf("got %+v, want krang and listed", got)
	}
	if got[0].Static || !got[1].Static || got[0].Addrs[0].String() != "192.0.2.1:8076" {
		t.Errorf("got %+v, want listed alone static, addresses as found", got)
	}
	if everybody := members(found, discovery.Peer{}); len(everybody) != 4 {
		t.Errorf("got %d peers without a network of our own, want all 4", len(everybody))
	}
}
