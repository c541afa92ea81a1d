package discovery

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Announcements never rename a peer. Only a linked node adds a suffix to a name.
func TestNodesWithOneNameAreListedSeparately(t *testing.T) {
	table := newTable(Peer{Host: "krang", Node: node("b1"), Network: "11111111"})
	mustAdd(t, table, t0, announced("krang", "c1", "10.0.0.2:8076"))
	if got := table.selfHost(); got != "krang" {
		t.Errorf("got %q besides a higher node id, want krang", got)
	}
	other := announced("krang", "a0", "10.0.0.9:8076")
	other.Peer.Network = "22222222"
	mustAdd(t, table, t0, other)
	if got := table.selfHost(); got != "krang" {
		t.Errorf("got %q besides a host of another network, want krang", got)
	}
	mustAdd(t, table, t0, announced("krang", "a1", "10.0.0.3:8076"))
	wantHosts(t, table, "krang krang krang")
	if got := table.selfHost(); got != "krang-b1ff" {
		t.Errorf("got %q besides a lower node id, want krang-b1ff", got)
	}
}

func TestSelfHostShortensLongName(t *testing.T) {
	long := strings.Repeat("k", 63)
	table := newTable(Peer{Host: long, Node: node("b1"), Network: "11111111"})
	mustAdd(t, table, t0, announced(long, "a1", "10.0.0.2:8076"))
	if got, want := table.selfHost(), strings.Repeat("k", 58)+"-b1ff"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPeersAreIndependentOfArrivalOrder(t *testing.T) {
	var all []announcement
	for i := range 20 {
		all = append(all, announced(fmt.Sprintf("host%d", i%7), fmt.Sprintf("%02x", i), fmt.Sprintf("10.0.0.%d:8076", i)))
	}
	var want []Peer
	for range 50 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		table := newTable(Peer{})
		for _, s := range all {
			mustAdd(t, table, t0, s)
		}
		if got := table.peers(); want == nil {
			want = got
		} else if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestStaticPeerNeverExpires(t *testing.T) {
	table := newTable(Peer{})
	s, _ := ParseStatic("robot:8076")
	if !table.setStatic(s, nil) {
		t.Error("a new static peer is no change")
	}
	table.setStatic(s, ports("10.0.0.2:8076"))
	if table.setStatic(s, nil) {
		t.Error("a failed look-up forgot the addresses")
	}
	table.expire(after(1000 * time.Hour))
	wantAddrs(t, table, "10.0.0.2:8076")
	if p := table.peers()[0]; p.Source != SourceStatic || p.Host != "robot" || p.Node != "" {
		t.Errorf("got %+v, want a static robot without node", p)
	}
}

func TestStaticPeerIsListedBesidesAnnouncement(t *testing.T) {
	table := newTable(Peer{})
	s, _ := ParseStatic("robot.lab.example:8076")
	table.setStatic(s, ports("10.0.0.2:8076"))
	mustAdd(t, table, t0, announced("ghost", "a1", "10.0.0.2:8076", "10.0.0.66:8076"))
	for _, p := range table.peers() {
		if p.Source == SourceStatic && (p.Node != "" || p.Host != "robot.lab.example" || !slices.Equal(p.Addrs, ports("10.0.0.2:8076"))) {
			t.Errorf("got %+v, want the listed peer as it was", p)
		}
	}
	wantHosts(t, table, "ghost robot.lab.example")
}

func TestClaimsOfOneHostAreMerged(t *testing.T) {
	table := newTable(Peer{})
	s, _ := ParseStatic("robot.lab.example:8076")
	table.setStatic(s, ports("10.0.0.2:8076"))
	mustAdd(t, table, t0, announced("robot", "a1", "10.0.0.2:8076"))
	newer := announced("robot", "a1", "10.1.0.2:9000")
	newer.Peer.Channels = []Channel{{"imu", 16, 64}}
	mustAdd(t, table, after(time.Second), newer)
	mustAdd(t, table, t0, announced("ghost", "a1", "10.0.0.66:8076"))
	got := Hosts(table.peers())
	if len(got) != 2 || got[0].Host != "ghost" || got[1].Host != "robot" {
		t.Fatalf("got %+v, want ghost and robot", got)
	}
	if p := got[1]; p.Source != SourceStatic || len(p.Channels) != 1 || !slices.Equal(p.Addrs, ports("10.1.0.2:9000", "10.0.0.2:8076")) {
		t.Errorf("got %+v, want the robot as said last, at all its addresses", p)
	}
}

func TestStaticTransportAppliesToAnnouncedPeer(t *testing.T) {
	table := newTable(Peer{})
	s, _ := ParseStatic("robot")
	s.Transport = "sctp"
	table.setStatic(s, ports("10.0.0.2:8076"))
	for _, at := range []string{"10.0.0.2:8076", "10.0.0.2:9000"} {
		mustAdd(t, table, t0, announced("robot", "a1", at))
	}
	for _, p := range table.peers() {
		if p.Transport != "sctp" {
			t.Errorf("got %+v, want it over sctp", p)
		}
	}
}

func TestStaticPeersOfOneMachineStaySeparate(t *testing.T) {
	table := newTable(Peer{})
	for _, text := range []string{"10.0.0.2:9001", "10.0.0.2:9002"} {
		s, _ := ParseStatic(text)
		table.setStatic(s, ports(text))
	}
	mustAdd(t, table, t0, announced("robot", "a1", "10.0.0.2:9001"))
	if got := Hosts(table.peers()); len(got) != 2 {
		t.Errorf("got %d hosts, want 2: %v", len(got), got)
	}
}
