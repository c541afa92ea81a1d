package discovery

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var t0 = time.Unix(1_000_000, 0)

func after(d time.Duration) time.Time { return t0.Add(d) }

// node returns a node id that begins with the given digits.
func node(prefix string) string { return prefix + strings.Repeat("f", 32-len(prefix)) }

func ports(addrs ...string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range addrs {
		out = append(out, netip.MustParseAddrPort(a))
	}
	return out
}

// announced returns an announcement of host, with a node id that begins with id, sent from its first address.
func announced(host, id string, addrs ...string) announcement {
	s := announcement{Peer: Peer{Host: host, Node: node(id), Network: "11111111", lifetime: 10 * time.Second}}
	for _, a := range ports(addrs...) {
		s.Addrs = append(s.Addrs, address{a, rankSubnet})
	}
	return s.from(addrs[0])
}

// from returns s with another source.
func (s announcement) from(addr string) announcement {
	s.From = netip.MustParseAddrPort(addr).Addr()
	return s
}

func mustAdd(t *testing.T, table *table, now time.Time, s announcement) bool {
	t.Helper()
	changed, dropped := table.add(now, s)
	if dropped {
		t.Fatal("a table that is not full dropped something")
	}
	return changed
}

func hosts(table *table) string {
	var names []string
	for _, p := range table.peers() {
		names = append(names, p.Host)
	}
	return strings.Join(names, " ")
}

func wantHosts(t *testing.T, table *table, want string) {
	t.Helper()
	if got := hosts(table); got != want {
		t.Errorf("got hosts %q, want %q", got, want)
	}
}

func wantAddrs(t *testing.T, table *table, want ...string) {
	t.Helper()
	peers := table.peers()
	if len(peers) != 1 || !slices.Equal(peers[0].Addrs, ports(want...)) {
		t.Errorf("got %v, want one peer with %v", peers, want)
	}
}

func TestClaimExpiresAfterItsLifetime(t *testing.T) {
	table := newTable(Peer{})
	mustAdd(t, table, t0, announced("robot", "a1", "10.0.0.2:8076"))
	if next := table.nextExpiry(); next != after(10*time.Second) {
		t.Errorf("got next %v, want the end of the life", next.Sub(t0))
	}
	if table.expire(after(10*time.Second - 1)) {
		t.Error("changed before the life was over")
	}
	if !table.expire(after(10 * time.Second)) {
		t.Error("not changed when the life was over")
	}
	wantHosts(t, table, "")
	if !table.nextExpiry().IsZero() {
		t.Error("an empty table still waits for something")
	}
}

func TestRepeatedAnnouncementRenewsClaim(t *testing.T) {
	table := newTable(Peer{})
	if !mustAdd(t, table, t0, announced("robot", "a1", "10.0.0.2:8076")) {
		t.Error("a new peer is no change")
	}
	if mustAdd(t, table, after(9*time.Second), announced("robot", "a1", "10.0.0.2:8076")) {
		t.Error("the same again is a change")
	}
	table.expire(after(18 * time.Second))
	wantHosts(t, table, "robot")
}

// addr parses the address of a source.
var addr = netip.MustParseAddr

func TestGoodbyeRemovesClaimAfterHalfASecond(t *testing.T) {
	table := newTable(Peer{})
	mustAdd(t, table, t0, announced("robot", "a1", "10.0.0.2:8076"))
	table.handleGoodbye(t0, addr("10.0.0.2"), Peer{Node: node("a1")})
	table.handleGoodbye(after(400*time.Millisecond), addr("10.0.0.2"), Peer{Node: node("a1")}) // a repeated goodbye does not extend the time
	if table.expire(after(499 * time.Millisecond)) {
		t.Error("gone before others could rescue it")
	}
	if !table.expire(after(500 * time.Millisecond)) {
		t.Error("still there after its goodbye")
	}
	wantHosts(t, table, "")
}

func TestFinalGoodbyeRemovesClaimAtOnce(t *testing.T) {
	table := newTable(Peer{})
	mustAdd(t, table, t0, announced("robot", "a1", "10.0.0.2:8076"))
	table.handleGoodbye(t0, addr("10.0.0.2"), Peer{Node: node("a1")}) // zeroconf's goodbye is the first
	table.handleFinalGoodbye(t0, addr("10.0.0.2"), Peer{Node: node("a1")})
	table.handleFinalGoodbye(t0, addr("10.0.0.2"), Peer{Node: node("c1")})
	if next := table.nextExpiry(); !next.Equal(t0) || !table.expire(t0) {
		t.Errorf("got %v as the next time to look, want now", next)
	}
	wantHosts(t, table, "")
}

func TestAnnouncementAfterGoodbyeKeepsClaim(t *testing.T) {
	table := newTable(Peer{})
	mustAdd(t, table, t0, announced("robot", "a1", "10.0.0.2:8076"))
	table.handleGoodbye(t0, addr("10.0.0.2"), Peer{Node: node("a1")})
	mustAdd(t, table, after(time.Millisecond), announced("robot", "a1", "10.0.0.2:8076"))
	if table.expire(after(5 * time.Second)) {
		t.Error("the rescued peer changed")
	}
	wantHosts(t, table, "robot")
}

func TestGoodbyeByNameEndsOnlyClaimsOfItsSource(t *testing.T) {
	table := newTable(Peer{})
	mustAdd(t, table, t0, announced("robot", "a1", "10.0.0.2:8076"))
	mustAdd(t, table, t0, announced("arm", "b1", "10.0.0.3:8076"))
	mustAdd(t, table, t0, announced("arm", "b2", "10.0.0.4:8076"))
	table.handleGoodbye(t0, addr("10.0.0.2"), Peer{Host: "robot"})
	table.handleGoodbye(t0, addr("10.0.0.4"), Peer{Host: "arm"})
	table.expire(after(time.Second))
	wantHosts(t, table, "arm")
	if got := table.peers()[0].Node; got != node("b1") {
		t.Errorf("got %s, want the arm that said nothing", got)
	}
}

func TestGoodbyeOfAnotherSourceIsIgnored(t *testing.T) {
	table := newTable(Peer{})
	mustAdd(t, table, t0, announced("robot", "a1", "10.0.0.2:8076"))
	for _, p := range []Peer{{Node: node("a1")}, {Host: "robot"}, {Node: node("c1"), Host: "robot"}} {
		table.handleGoodbye(t0, addr("10.0.0.66"), p)
		table.handleFinalGoodbye(t0, addr("10.0.0.66"), p)
	}
	table.handleFinalGoodbye(t0, addr("10.0.0.2"), Peer{Node: node("c1"), Host: "robot"})
	table.expire(after(time.Second))
	wantHosts(t, table, "robot")
}

// A host that has lost one of its addresses sends goodbyes from another announced address.
func TestFinalGoodbyeCountsFromAnyAnnouncedAddress(t *testing.T) {
	for by, addrs := range map[string][]string{
		"fd00::2":      {"10.0.0.2:8076", "[fd00::2]:8076"},
		"10.0.0.2":     {"10.0.0.2:8076", "[fd00::2]:8076"},
		"10.0.0.3":     {"10.0.0.2:8076", "10.0.0.3:8076"},
		"fe80::2%eth0": {"10.0.0.2:8076", "[fe80::2%eth0]:8076"},
	} {
		table := newTable(Peer{})
		robot := announced("robot", "a1", addrs...)
		mustAdd(t, table, t0, robot)
		mustAdd(t, table, t0, robot.from("[fe80::2%eth0]:5353"))
		mustAdd(t, table, t0, announced("arm", "b1", addrs...))
		table.handleFinalGoodbye(t0, addr(by), Peer{Node: node("a1"), Host: "robot"})
		table.expire(t0)
		if got := hosts(table); got != "arm" {
			t.Errorf("after a goodbye from %s of %v: got hosts %q, want the other alone", by, addrs, got)
		}
	}
}

func TestFinalGoodbyeIsAcceptedFromFarAddress(t *testing.T) {
	table := newTable(Peer{})
	robot := announced("robot", "a1", "10.0.0.2:8076").from("10.9.0.254:5353")
	robot.Addrs = append(robot.Addrs, address{netip.MustParseAddrPort("10.9.0.2:8076"), rankFar})
	mustAdd(t, table, t0, robot)
	table.handleFinalGoodbye(t0, addr("10.9.0.2"), robot.Peer)
	table.expire(t0)
	wantHosts(t, table, "")
}

// The attacker first announces the robot's node as its own in several ways, then sends a goodbye from its address.
func TestForgedGoodbyeEndsOnlyForgedClaims(t *testing.T) {
	table := newTable(Peer{})
	robot := announced("robot", "a1", "10.0.0.2:8076", "[fd00::2]:8076")
	mustAdd(t, table, t0, robot)
	mustAdd(t, table, t0, robot.from("[fe80::2%eth0]:5353"))
	for _, lie := range []announcement{
		announced("robot", "a1", "10.0.0.66:8076"),
		announced("robot", "a1", "10.0.0.2:8076", "[fd00::2]:8076", "10.0.0.66:8076").from("10.0.0.66:5353"),
		robot.from("10.0.0.66:5353"),
	} {
		mustAdd(t, table, t0, lie)
	}
	for _, p := range []Peer{{Node: node("a1")}, {Node: node("a1"), Host: "robot"}, {Host: "robot"}} {
		table.handleFinalGoodbye(t0, addr("10.0.0.66"), p)
		table.handleGoodbye(t0, addr("10.0.0.66"), p)
	}
	table.expire(after(time.Second))
	peers := table.peers()
	if len(peers) != 2 || peers[0].By != addr("10.0.0.2") || peers[1].By != addr("fe80::2%eth0") {
		t.Errorf("got %+v, want what the robot claims by either of its addresses", peers)
	}
}

// When a host registers again, zeroconf sends goodbyes and announcements from each of its addresses.
func TestGoodbyeEndsOnlyClaimsOfItsSource(t *testing.T) {
	table := newTable(Peer{})
	mustAdd(t, table, t0, announced("robot", "a1", "10.0.0.2:8076", "[fe80::2%eth0]:8076"))
	table.handleGoodbye(t0, addr("fe80::2%eth0"), Peer{Node: node("a1")})
	table.expire(after(time.Second))
	wantHosts(t, table, "robot")
}

func TestGoodbyesWithoutClaimsAreNotRateLimited(t *testing.T) {
	table := newTable(Peer{})
	robot := announced("robot", "a1", "10.0.0.2:8076", "[fd00::2]:8076")
	mustAdd(t, table, t0, robot)
	for range 3 { // as zeroconf sends on a host without an IPv4 address
		table.handleGoodbye(t0, addr("0.0.0.0"), robot.Peer)
	}
	table.handleFinalGoodbye(after(time.Millisecond), addr("fd00::2"), robot.Peer)
	table.expire(after(time.Millisecond))
	wantHosts(t, table, "")
}

// A host whose addresses change sends a goodbye without bye=1, and an announcement that is too late to rescue its claims.
// When the host leaves soon after, its final goodbye still counts.
func TestFinalGoodbyeCountsAfterOrdinaryGoodbye(t *testing.T) {
	table := newTable(Peer{})
	robot := announced("robot", "a1", "10.0.0.2:8076")
	mustAdd(t, table, t0, robot)
	table.handleGoodbye(t0, addr("10.0.0.2"), robot.Peer)
	table.expire(after(goodbyeDelay))
	mustAdd(t, table, after(700*time.Millisecond), robot)
	table.handleFinalGoodbye(after(3*time.Second), addr("10.0.0.2"), robot.Peer)
	table.expire(after(3 * time.Second))
	wantHosts(t, table, "")
}

// Forged goodbyes have the robot's source address. After each announcement the robot is listed for ten seconds.
func TestRepeatedGoodbyesDoNotHideHost(t *testing.T) {
	table := newTable(Peer{})
	robot := announced("robot", "a1", "10.0.0.2:8076", "10.0.0.3:8076")
	mustAdd(t, table, t0, robot)
	table.handleFinalGoodbye(t0, addr("10.0.0.2"), robot.Peer)
	table.expire(t0)
	mustAdd(t, table, after(time.Second), robot)
	for d := time.Second; d < goodbyeHoldoff; d += 100 * time.Millisecond {
		table.handleFinalGoodbye(after(d), addr("10.0.0.2"), robot.Peer)
		table.handleFinalGoodbye(after(d), addr("10.0.0.3"), robot.Peer)
		table.handleGoodbye(after(d), addr("10.0.0.2"), Peer{Host: "robot"})
		table.expire(after(d))
		wantHosts(t, table, "robot")
	}
	table.handleFinalGoodbye(after(goodbyeHoldoff), addr("10.0.0.2"), robot.Peer)
	table.expire(after(goodbyeHoldoff))
	wantHosts(t, table, "")
}

func TestOwnAnnouncementIsIgnored(t *testing.T) {
	table := newTable(Peer{Host: "pc", Node: node("a1")})
	if mustAdd(t, table, t0, announced("pc", "a1", "10.0.0.2:8076")) {
		t.Error("a node saw itself")
	}
}

func TestClaimExpiresAfterTwoMinutesAtMost(t *testing.T) {
	table := newTable(Peer{})
	s := announced("ghost", "01", "10.0.0.66:8076")
	s.Peer.lifetime = time.Hour
	mustAdd(t, table, t0, s)
	table.expire(after(2*time.Minute - 1))
	wantHosts(t, table, "ghost")
	table.expire(after(2 * time.Minute))
	wantHosts(t, table, "")
}

// Other claims about a known node, also of the same source, are listed besides the first claim.
func TestAnnouncementNeverChangesAnotherClaim(t *testing.T) {
	robot := announced("robot", "a1", "10.0.0.2:8076")
	for name, lie := range map[string]announcement{
		"another name":                       announced("ghost", "a1", "10.0.0.66:8076"),
		"another address":                    announced("robot", "a1", "10.0.0.66:8076"),
		"another port":                       announced("robot", "a1", "10.0.0.2:9000").from("10.0.0.66:1"),
		"another node":                       announced("robot", "01", "10.0.0.2:8076").from("10.0.0.66:1"),
		"another name, forged source":        announced("ghost", "a1", "10.0.0.2:8076"),
		"another address, forged source":     announced("robot", "a1", "10.0.0.66:8076").from("10.0.0.2:1"),
		"one address more, forged source":    announced("robot", "a1", "10.0.0.2:8076", "10.0.0.66:8076"),
		"another port, forged source":        announced("robot", "a1", "10.0.0.2:9000"),
		"another node, forged source":        announced("robot", "01", "10.0.0.2:8076"),
		"another node and port, forged too":  announced("robot", "01", "10.0.0.2:9000"),
		"an address far away, forged source": {Peer: robot.Peer, Addrs: []address{{ports("192.0.2.7:8076")[0], rankFar}}, From: robot.From},
	} {
		table := newTable(Peer{})
		mustAdd(t, table, t0, robot)
		before := table.peers()[0]
		if !mustAdd(t, table, t0, lie) {
			t.Errorf("%s: no change", name)
		}
		after := table.peers()
		if len(after) != 2 || !samePeer(after[0], before) && !samePeer(after[1], before) {
			t.Errorf("%s: got %+v, want the first claim and another one", name, after)
		}
	}
}

func TestLastAnnouncementReplacesChannels(t *testing.T) {
	table := newTable(Peer{})
	s := announced("robot", "a1", "10.0.0.2:8076")
	mustAdd(t, table, t0, s)
	s.Peer.Channels = []Channel{{"imu", 16, 64}}
	if !mustAdd(t, table, t0, s) || len(table.peers()) != 1 || len(table.peers()[0].Channels) != 1 {
		t.Errorf("got %+v, want one robot with its channel", table.peers())
	}
}

func TestFarAddressesAreNotDialled(t *testing.T) {
	table := newTable(Peer{})
	s := announced("robot", "a1", "10.0.0.2:8076")
	s.Addrs = append(s.Addrs, address{netip.MustParseAddrPort("192.0.2.7:8076"), rankFar})
	mustAdd(t, table, t0, s)
	p := table.peers()[0]
	if !slices.Equal(p.Addrs, ports("10.0.0.2:8076")) || !slices.Equal(p.Far, ports("192.0.2.7:8076")) || p.By != addr("10.0.0.2") {
		t.Errorf("got %+v, want one address of each kind, and who said it", p)
	}
}

func TestTableLimitsClaimsOfSource(t *testing.T) {
	table := newTable(Peer{})
	mustAdd(t, table, t0, announced("robot", "ffff", "10.0.0.2:8076"))
	for i := range 10 * maxSourceClaims {
		table.add(after(time.Duration(i)*time.Millisecond), announced(fmt.Sprintf("liar%03d", i), fmt.Sprintf("%08x", i), "10.0.0.3:8076"))
	}
	peers := table.peers()
	if len(peers) != maxSourceClaims+1 || peers[len(peers)-1].Host != "robot" {
		t.Errorf("got %d peers, want the robot and the %d of the share", len(peers), maxSourceClaims)
	}
	if got, want := peers[0].Host, fmt.Sprintf("liar%03d", 9*maxSourceClaims); got != want {
		t.Errorf("got %s as the oldest that was kept, want %s", got, want)
	}
}

func TestFullTableDropsClaimOfLargestSource(t *testing.T) {
	table := newTable(Peer{})
	mustAdd(t, table, t0, announced("early", "fffe", "10.0.0.2:8076"))
	for i := range 2 * maxClaims { // from 40 sources
		table.add(after(time.Millisecond), announced("liar", fmt.Sprintf("%08x", i), fmt.Sprintf("10.0.1.%d:8076", i%40)))
	}
	changed, dropped := table.add(after(time.Second), announced("late", "ffff", "10.0.0.3:8076"))
	if !changed || !dropped {
		t.Errorf("got changed %v, dropped %v, want a newcomer in the place of another", changed, dropped)
	}
	if got := len(table.peers()); got != maxClaims {
		t.Errorf("got %d claims, want %d", got, maxClaims)
	}
	wantHosts(t, table, "early late"+strings.Repeat(" liar", maxClaims-2))
	table.expire(after(time.Hour))
	if len(table.claims)+len(table.claimsOf) != 0 {
		t.Errorf("got %d claims of %d sources after an hour, want none", len(table.claims), len(table.claimsOf))
	}
}

// Up to maxPacketRate packets a second with up to maxInstances claims each are added. In a full table of forged sources,
// each claim must cost only microseconds.
func BenchmarkClaimsOfForgedSources(b *testing.B) {
	table := newTable(Peer{})
	s := announced("liar", "a1", "10.0.0.2:8076")
	for i := 0; b.Loop(); i++ {
		s.From = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		table.add(after(time.Duration(i)), s)
	}
}
