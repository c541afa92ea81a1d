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

func TestZoneIsBelievedUntilItSaysOtherwise(t *testing.T) {
	table := NewTable(Peer{})
	robot := listedPeer("robot", "", "10.0.0.2:8076")
	if !table.Listed("a.example", []Peer{robot}) || table.Listed("a.example", []Peer{robot}) {
		t.Error("got a change for the same again, or none for a new host")
	}
	table.Listed("b.example", []Peer{listedPeer("arm", "", "10.0.0.3:8076")})
	table.Expire(after(24 * time.Hour))
	wantHosts(t, table, "arm robot")
	if got := table.Peers()[1]; got.Source != SourceDNS || got.Node != "" {
		t.Errorf("got %+v, want a peer of which DNS alone tells", got)
	}
	if !table.Listed("a.example", nil) {
		t.Error("a host that is no longer listed is no change")
	}
	wantHosts(t, table, "arm")
}

func TestListedNodeThatIsHeardIsOne(t *testing.T) {
	for name, listed := range map[string]Peer{
		"by its id":                    listedPeer("robot", "a1", "192.0.2.2:8076"),
		"by its address":               listedPeer("other", "", "10.0.0.2:8076"),
		"by its machine, port changed": listedPeer("robot", "", "10.0.0.2:9000"),
	} {
		table := NewTable(Peer{})
		see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076"))
		table.Listed("a.example", []Peer{listed})
		wantHosts(t, table, "robot")
		p := table.Peers()[0]
		if p.Source != SourceMDNS || p.Addrs[0] != ports("10.0.0.2:8076")[0] || len(p.Addrs) > 2 {
			t.Errorf("%s: got %+v, want what was heard first", name, p)
		}
	}
}

func TestListedNodeOfAnotherIDIsAnother(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("krang", "a1", "10.0.0.2:8076"))
	table.Listed("a.example", []Peer{listedPeer("krang", "b1", "10.0.0.3:8076")})
	wantHosts(t, table, "krang krang-b1ff")
}

func TestOwnEntryInAZoneIsIgnored(t *testing.T) {
	table := NewTable(Peer{Host: "pc", Node: node("99"), Network: "11111111"})
	table.Listed("a.example", []Peer{listedPeer("pc", "99", "10.0.0.1:8076")})
	wantHosts(t, table, "")
}

func TestListedTwiceIsOnePeer(t *testing.T) {
	table := NewTable(Peer{})
	table.Listed("a.example", []Peer{listedPeer("robot", "", "10.0.0.2:8076")})
	table.Listed("b.example", []Peer{listedPeer("robot", "", "10.0.0.2:8076")})
	s, _ := ParseStatic("--peer", "10.0.0.2")
	table.Resolved(s, ports("10.0.0.2:8076"))
	if got := table.Peers(); len(got) != 1 || got[0].Source != SourceStatic || got[0].Host != "robot" {
		t.Errorf("got %+v, want one peer, that the user wants, by the name of its zone", got)
	}
}
