package discovery

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestTwoNodesOfOneNameGetTwoNames(t *testing.T) {
	low, high := sighting("krang", "a1", "10.0.0.2:8076"), sighting("krang", "b1", "10.0.0.3:8076")
	for _, order := range [][]Sighting{{low, high}, {high, low}} {
		table := NewTable(Peer{})
		for _, s := range order {
			see(t, table, t0, s)
		}
		wantHosts(t, table, "krang krang-b1ff")
		if got := table.Peers()[0].Node; got != node("a1") {
			t.Errorf("got %s as krang, want the lower node id", got)
		}
	}
}

func TestNameReturnsWhenTheOtherNodeLeaves(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("krang", "a1", "10.0.0.2:8076"))
	see(t, table, after(5*time.Second), sighting("krang", "b1", "10.0.0.3:8076"))
	table.Expire(after(10 * time.Second))
	wantHosts(t, table, "krang")
}

func TestSelfTakesPartInNaming(t *testing.T) {
	table := NewTable(Peer{Host: "krang", Node: node("b1"), Network: "11111111"})
	if got := table.SelfHost(); got != "krang" {
		t.Errorf("got %q alone, want krang", got)
	}
	see(t, table, t0, sighting("krang", "c1", "10.0.0.3:8076"))
	wantHosts(t, table, "krang-c1ff")
	see(t, table, t0, sighting("krang", "a1", "10.0.0.2:8076"))
	wantHosts(t, table, "krang krang-c1ff")
	if got := table.SelfHost(); got != "krang-b1ff" {
		t.Errorf("got %q beside a lower node id, want krang-b1ff", got)
	}
}

func TestSecondNameNeverMeetsAThirdHost(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("krang-b1ff", "99", "10.0.0.1:8076"))
	see(t, table, t0, sighting("krang", "a1", "10.0.0.2:8076"))
	see(t, table, t0, sighting("krang", "b1", "10.0.0.3:8076"))
	wantHosts(t, table, "krang krang-b1ff krang-b1ffffff")
}

func TestSecondNameOfALongNameFits(t *testing.T) {
	table := NewTable(Peer{})
	long := strings.Repeat("k", 63)
	see(t, table, t0, sighting(long, "a1", "10.0.0.2:8076"))
	see(t, table, t0, sighting(long, "b1", "10.0.0.3:8076"))
	wantHosts(t, table, strings.Repeat("k", 58)+"-b1ff "+long)
}

func TestAnotherNetworkRenamesNobody(t *testing.T) {
	table := NewTable(Peer{})
	stranger := sighting("krang", "a1", "10.0.0.2:8076")
	stranger.Peer.Network = "22222222"
	see(t, table, t0, stranger)
	see(t, table, t0, sighting("krang", "b1", "10.0.0.3:8076"))
	wantHosts(t, table, "krang krang")
}

func TestPeersDoNotDependOnTheOrderOfArrival(t *testing.T) {
	var all []Sighting
	for i := range 20 {
		all = append(all, sighting(fmt.Sprintf("host%d", i%7), fmt.Sprintf("%02x", i), fmt.Sprintf("10.0.0.%d:8076", i)))
	}
	var want []Peer
	for range 50 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		table := NewTable(Peer{})
		for _, s := range all {
			see(t, table, t0, s)
		}
		if got := table.Peers(); want == nil {
			want = got
		} else if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestStaticPeerIsThereForEver(t *testing.T) {
	table := NewTable(Peer{})
	s, _ := ParseStatic("--peer", "robot:8076")
	if !table.Resolved(s, nil) {
		t.Error("a new static peer is no change")
	}
	table.Resolved(s, ports("10.0.0.2:8076"))
	if table.Resolved(s, nil) {
		t.Error("a failed look-up forgot the addresses")
	}
	table.Expire(after(1000 * time.Hour))
	wantAddrs(t, table, "10.0.0.2:8076")
	if p := table.Peers()[0]; p.Source != SourceStatic || p.Host != "robot" || p.Node != "" {
		t.Errorf("got %+v, want a static robot without node", p)
	}
}

func TestStaticPeerAndAnnouncementOfOneNodeAreOne(t *testing.T) {
	table := NewTable(Peer{})
	s, _ := ParseStatic("--peer", "robot.lab.example:8076")
	table.Resolved(s, ports("10.0.0.2:8076"))
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076"))
	wantAddrs(t, table, "10.0.0.2:8076")
	if p := table.Peers()[0]; p.Node != node("a1") || p.Source != SourceStatic || p.Host != "robot" {
		t.Errorf("got %+v, want a static robot with its node", p)
	}
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:9000"))
	wantAddrs(t, table, "10.0.0.2:9000", "10.0.0.2:8076")
	table.Expire(after(time.Minute))
	wantHosts(t, table, "robot.lab.example")
}

func TestWishForATransportHoldsForThePeerHoweverItIsFound(t *testing.T) {
	table := NewTable(Peer{})
	s, _ := ParseStatic("--peer", "robot")
	s.Transport = "sctp"
	table.Resolved(s, ports("10.0.0.2:8076"))
	if got := table.Peers()[0].Transport; got != "sctp" {
		t.Errorf("listed: got transport %q, want sctp", got)
	}
	for _, at := range []string{"10.0.0.2:8076", "10.0.0.2:9000"} {
		see(t, table, t0, sighting("robot", "a1", at))
		if got := table.Peers(); len(got) != 1 || got[0].Transport != "sctp" {
			t.Errorf("heard at %s: got %+v, want one robot over sctp", at, got)
		}
	}
}

func TestStaticPeersOfOneMachineStayApart(t *testing.T) {
	table := NewTable(Peer{})
	for _, text := range []string{"10.0.0.2:9001", "10.0.0.2:9002"} {
		s, _ := ParseStatic("--peer", text)
		table.Resolved(s, ports(text))
	}
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:9001"))
	if got := len(table.Peers()); got != 2 {
		t.Errorf("got %d peers, want 2: %v", got, table.Peers())
	}
}
