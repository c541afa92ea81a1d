package discovery

import (
	"testing"
	"time"
)

func listedPeer(host, id, addr string) Peer {
	p := Peer{Host: host, Addrs: ports(addr)}
	if id != "" {
		p.Node, p.Network = node(id), "11111111"
	}
	return p
}

func TestZonePeersStayUntilZoneChanges(t *testing.T) {
	table := newTable(Peer{})
	robot := listedPeer("robot", "", "10.0.0.2:8076")
	if !table.setZone("a.example", []Peer{robot}) || table.setZone("a.example", []Peer{robot}) {
		t.Error("got a change for the same again, or none for a new host")
	}
	table.setZone("b.example", []Peer{listedPeer("arm", "", "10.0.0.3:8076")})
	table.expire(after(24 * time.Hour))
	wantHosts(t, table, "arm robot")
	if got := table.peers()[1]; got.Source != sourceDNS || got.Node != "" {
		t.Errorf("got %+v, want a peer of which DNS alone tells", got)
	}
	if !table.setZone("a.example", nil) {
		t.Error("a host that is no longer listed is no change")
	}
	wantHosts(t, table, "arm")
}

func TestZonePeerIsMergedWithAnnouncement(t *testing.T) {
	for name, listed := range map[string]Peer{
		"by its id":                    listedPeer("robot", "a1", "192.0.2.2:8076"),
		"by its address":               listedPeer("other", "", "10.0.0.2:8076"),
		"by its machine, port changed": listedPeer("robot", "", "10.0.0.2:9000"),
	} {
		table := newTable(Peer{})
		mustAdd(t, table, t0, announced("robot", "a1", "10.0.0.2:8076"))
		table.setZone("a.example", []Peer{listed})
		if got := len(table.peers()); got != 2 {
			t.Errorf("%s: got %d peers to dial, want both", name, got)
		}
		hosts := Hosts(table.peers())
		p := hosts[0]
		if len(hosts) != 1 || p.Host != "robot" || p.Source != sourceMDNS || p.Addrs[0] != ports("10.0.0.2:8076")[0] || len(p.Addrs) > 2 {
			t.Errorf("%s: got %+v, want what was heard first", name, p)
		}
	}
}

func TestZonePeerWithDifferentIDStaysSeparate(t *testing.T) {
	table := newTable(Peer{})
	mustAdd(t, table, t0, announced("krang", "a1", "10.0.0.2:8076"))
	table.setZone("a.example", []Peer{listedPeer("krang", "b1", "10.0.0.3:8076")})
	if got := Hosts(table.peers()); len(got) != 2 || got[0].Node != node("a1") || got[1].Node != node("b1") {
		t.Errorf("got %+v, want two nodes", got)
	}
}

func TestOwnEntryInAZoneIsIgnored(t *testing.T) {
	table := newTable(Peer{Host: "pc", Node: node("99"), Network: "11111111"})
	table.setZone("a.example", []Peer{listedPeer("pc", "99", "10.0.0.1:8076")})
	wantHosts(t, table, "")
}

func TestHostsMergesPeerOfTwoZones(t *testing.T) {
	table := newTable(Peer{})
	table.setZone("a.example", []Peer{listedPeer("robot", "", "10.0.0.2:8076")})
	table.setZone("b.example", []Peer{listedPeer("robot", "", "10.0.0.2:8076")})
	s, _ := ParseStatic("10.0.0.2")
	table.setStatic(s, ports("10.0.0.2:8076"))
	if got := Hosts(table.peers()); len(got) != 1 || got[0].Source != SourceStatic || got[0].Host != "robot" {
		t.Errorf("got %+v, want one host, that the user wants, by the name of its zone", got)
	}
}
