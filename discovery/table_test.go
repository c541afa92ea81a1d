package discovery

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var t0 = time.Unix(1_000_000, 0)

func after(d time.Duration) time.Time { return t0.Add(d) }

// node makes a node id that begins with the given digits.
func node(prefix string) string { return prefix + strings.Repeat("f", 32-len(prefix)) }

func ports(addrs ...string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range addrs {
		out = append(out, netip.MustParseAddrPort(a))
	}
	return out
}

// sighting is host with the node id of prefix id, heard on eth0 by IPv4.
func sighting(host, id string, addrs ...string) Sighting {
	s := Sighting{Via: "eth0/4", Peer: Peer{Host: host, Node: node(id), Network: "11111111", Life: 10 * time.Second}}
	for _, a := range ports(addrs...) {
		s.Addrs = append(s.Addrs, Address{a, rankSubnet})
	}
	return s
}

func see(t *testing.T, table *Table, now time.Time, s Sighting) bool {
	t.Helper()
	changed, err := table.Seen(now, s)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func hosts(table *Table) string {
	var names []string
	for _, p := range table.Peers() {
		names = append(names, p.Host)
	}
	return strings.Join(names, " ")
}

func wantHosts(t *testing.T, table *Table, want string) {
	t.Helper()
	if got := hosts(table); got != want {
		t.Errorf("got hosts %q, want %q", got, want)
	}
}

func wantAddrs(t *testing.T, table *Table, want ...string) {
	t.Helper()
	peers := table.Peers()
	if len(peers) != 1 || !slices.Equal(peers[0].Addrs, ports(want...)) {
		t.Errorf("got %v, want one peer with %v", peers, want)
	}
}

func TestPeerExpiresAfterItsOwnLife(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076"))
	if next := table.Next(); next != after(10*time.Second) {
		t.Errorf("got next %v, want the end of the life", next.Sub(t0))
	}
	if table.Expire(after(10*time.Second - 1)) {
		t.Error("changed before the life was over")
	}
	if !table.Expire(after(10 * time.Second)) {
		t.Error("not changed when the life was over")
	}
	wantHosts(t, table, "")
	if !table.Next().IsZero() {
		t.Error("an empty table still waits for something")
	}
}

func TestHearingAPeerRenewsItAndIsNoChange(t *testing.T) {
	table := NewTable(Peer{})
	if !see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076")) {
		t.Error("a new peer is no change")
	}
	if see(t, table, after(9*time.Second), sighting("robot", "a1", "10.0.0.2:8076")) {
		t.Error("the same again is a change")
	}
	table.Expire(after(18 * time.Second))
	wantHosts(t, table, "robot")
}

func TestGoodbyeRemovesThePeerAfterHalfASecond(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076"))
	table.Gone(t0, Peer{Node: node("a1")})
	table.Gone(after(400*time.Millisecond), Peer{Node: node("a1")}) // its repetition does not prolong the stay
	if table.Expire(after(499 * time.Millisecond)) {
		t.Error("gone before others could rescue it")
	}
	if !table.Expire(after(500 * time.Millisecond)) {
		t.Error("still there after its goodbye")
	}
	wantHosts(t, table, "")
}

func TestHostThatSaysThatItLeavesIsGoneAtOnce(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076"))
	table.Gone(t0, Peer{Node: node("a1")}) // zeroconf's comes first
	table.Left(t0, Peer{Node: node("a1")})
	table.Left(t0, Peer{Node: node("c1")})
	if next := table.Next(); !next.Equal(t0) || !table.Expire(t0) {
		t.Errorf("got %v as the next time to look, want now", next)
	}
	wantHosts(t, table, "")
	old := sighting("robot", "a1", "10.0.0.2:8076")
	old.Hearsay = true
	see(t, table, after(time.Millisecond), old)
	wantHosts(t, table, "")
}

func TestAnnouncementAfterAGoodbyeRescuesThePeer(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076"))
	table.Gone(t0, Peer{Node: node("a1")})
	see(t, table, after(time.Millisecond), sighting("robot", "a1", "10.0.0.2:8076"))
	if table.Expire(after(5 * time.Second)) {
		t.Error("the rescued peer changed")
	}
	wantHosts(t, table, "robot")
}

func TestHearsayDoesNotBringBackWhoLeft(t *testing.T) {
	table := NewTable(Peer{})
	old := sighting("robot", "a1", "10.0.0.2:8076")
	old.Hearsay = true
	see(t, table, t0, old)
	wantHosts(t, table, "robot")
	table.Gone(t0, Peer{Node: node("a1")})
	see(t, table, after(time.Millisecond), old)
	table.Expire(after(time.Second))
	see(t, table, after(time.Second), old)
	wantHosts(t, table, "")
	see(t, table, after(time.Second), sighting("robot", "a1", "10.0.0.2:8076"))
	wantHosts(t, table, "robot")
}

func TestHearsayDoesNotChangeAKnownPeer(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:9000"))
	old := sighting("robot", "a1", "10.0.0.2:8076")
	old.Hearsay = true
	if see(t, table, t0, old) {
		t.Error("hearsay changed a known peer")
	}
	wantAddrs(t, table, "10.0.0.2:9000")
}

func TestGoodbyeByNameNeedsOneNodeOfThatName(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076"))
	see(t, table, t0, sighting("arm", "b1", "10.0.0.3:8076"))
	see(t, table, t0, sighting("arm", "b2", "10.0.0.4:8076"))
	table.Gone(t0, Peer{Host: "robot"})
	table.Gone(t0, Peer{Host: "arm"})
	table.Expire(after(time.Second))
	wantHosts(t, table, "arm arm-b2ff")
}

func TestGoodbyeOfAStrangerIsIgnored(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076"))
	table.Gone(t0, Peer{Node: node("c1"), Host: "robot"})
	table.Expire(after(time.Second))
	wantHosts(t, table, "robot")
}

func TestOwnAnnouncementIsIgnored(t *testing.T) {
	table := NewTable(Peer{Host: "pc", Node: node("a1")})
	if see(t, table, t0, sighting("pc", "a1", "10.0.0.2:8076")) {
		t.Error("a node saw itself")
	}
}

func TestAddressesOfSeveralInterfacesMergeBestFirst(t *testing.T) {
	table := NewTable(Peer{})
	eth := sighting("robot", "a1", "10.0.0.2:8076")
	eth.Addrs = append(eth.Addrs, Address{netip.MustParseAddrPort("192.0.2.7:8076"), rankFar})
	wifi := sighting("robot", "a1", "10.1.0.2:8076", "10.0.0.2:8076")
	wifi.Via = "wlan0/4"
	six := sighting("robot", "a1")
	six.Via = "eth0/6"
	six.Addrs = []Address{{netip.MustParseAddrPort("[fe80::1%eth0]:8076"), rankLinkLocal}}
	for _, s := range []Sighting{six, wifi, eth} {
		see(t, table, t0, s)
	}
	wantAddrs(t, table, "10.0.0.2:8076", "10.1.0.2:8076", "[fe80::1%eth0]:8076", "192.0.2.7:8076")
}

func TestAddressThatIsNoLongerAnnouncedVanishes(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076", "10.0.0.3:8076"))
	if !see(t, table, t0, sighting("robot", "a1", "10.0.0.3:8076")) {
		t.Error("no change")
	}
	wantAddrs(t, table, "10.0.0.3:8076")
}

func TestInterfaceThatFallsSilentLosesItsAddresses(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076"))
	wifi := sighting("robot", "a1", "10.1.0.2:8076")
	wifi.Via = "wlan0/4"
	see(t, table, after(5*time.Second), wifi)
	if !table.Expire(after(10 * time.Second)) {
		t.Error("no change")
	}
	wantAddrs(t, table, "10.1.0.2:8076")
}

func TestAddressesOfAnInterfaceThatIsGoneLastUntilThePeerIsHeardAgain(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "1", "10.0.0.2:8076"))
	table.Cut(func(via string) bool { return via == "eth0/4" })
	if got, want := table.Peers()[0].Addrs, ports("10.0.0.2:8076"); !slices.Equal(got, want) {
		t.Errorf("without the interface: got %v, want %v", got, want)
	}
	moved := sighting("robot", "1", "10.0.0.5:8076")
	moved.Via = "eth1/4"
	see(t, table, after(time.Second), moved)
	if got, want := table.Peers()[0].Addrs, ports("10.0.0.5:8076"); !slices.Equal(got, want) {
		t.Errorf("heard on another: got %v, want %v", got, want)
	}
}

func TestWhatIsHeardReplacesHearsay(t *testing.T) {
	table := NewTable(Peer{})
	hearsay := sighting("robot", "1", "10.0.0.2:8076")
	hearsay.Via, hearsay.Hearsay = "round", true
	see(t, table, t0, hearsay)
	see(t, table, after(time.Second), sighting("robot", "1", "10.0.0.5:8076"))
	if got, want := table.Peers()[0].Addrs, ports("10.0.0.5:8076"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRestartAtAnotherPortReplacesEveryAddress(t *testing.T) {
	table := NewTable(Peer{})
	wifi := sighting("robot", "a1", "10.1.0.2:8076")
	wifi.Via = "wlan0/4"
	see(t, table, t0, wifi)
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076"))
	see(t, table, after(time.Second), sighting("robot", "a1", "10.0.0.2:9000"))
	wantAddrs(t, table, "10.0.0.2:9000")
}

func TestRestartWithOtherTransportsIsAChange(t *testing.T) {
	table := NewTable(Peer{})
	s := sighting("robot", "a1", "10.0.0.2:8076")
	s.Peer.Ports = Ports{QUIC: 8076}
	see(t, table, t0, s)
	if see(t, table, after(time.Second), s) {
		t.Error("the same again is a change")
	}
	s.Peer.Ports = Ports{SCTP: 8077}
	if !see(t, table, after(time.Second), s) {
		t.Error("another transport is no change")
	}
	if p := table.Peers()[0]; p.Port != 8076 || p.Ports != s.Peer.Ports {
		t.Errorf("got port %d and %+v, want 8076 and %+v", p.Port, p.Ports, s.Peer.Ports)
	}
}

func TestNewNodeIDAtTheSameAddressReplacesTheOldOne(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "a1", "10.0.0.2:8076"))
	see(t, table, after(time.Second), sighting("robot", "b1", "10.0.0.2:8076"))
	wantHosts(t, table, "robot")
	if got := table.Peers()[0].Node; got != node("b1") {
		t.Errorf("got node %s, want the new one", got)
	}
}

func TestFullTableRefusesNewPeersAndKeepsTheOld(t *testing.T) {
	table := NewTable(Peer{})
	see(t, table, t0, sighting("robot", "ffff", "10.0.0.2:8076"))
	for i := range maxPeers {
		table.Seen(t0, sighting(fmt.Sprintf("liar%d", i), fmt.Sprintf("%08x", i), "10.0.0.3:8076"))
	}
	if _, err := table.Seen(t0, sighting("more", "eeee", "10.0.0.4:8076")); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if see(t, table, after(time.Second), sighting("robot", "ffff", "10.0.0.2:8076")) {
		t.Error("a known peer changed in a full table")
	}
	table.Expire(after(10 * time.Second))
	wantHosts(t, table, "robot")
}
