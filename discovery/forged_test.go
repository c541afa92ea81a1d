package discovery

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"achbridge/testnet/await"
)

// socket opens a socket on the mDNS port of a host, so that packets sent from it can be announcements.
func (h *host) socket(f family) *socket {
	h.lab.t.Helper()
	var s *socket
	onThread(h.lab.t, func() (err error) {
		if err = netns.Set(h.ns); err == nil {
			s, err = openSocket(f)
		}
		return err
	})
	h.lab.t.Cleanup(func() { s.Close() })
	return s
}

// setting writes value to a file in /proc/sys/net of a host.
func (h *host) setting(file, value string) {
	h.lab.t.Helper()
	onThread(h.lab.t, func() error {
		return errors.Join(netns.Set(h.ns), os.WriteFile("/proc/sys/net/"+file, []byte(value), 0))
	})
}

// route adds a route to a network through a router.
func (h *host) route(network, router string) {
	h.lab.t.Helper()
	h.lab.at(h.ns, func(n *netlink.Handle) error {
		_, dst, err := net.ParseCIDR(network)
		if err != nil {
			return err
		}
		return n.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(router)})
	})
}

// forgery returns an announcement of a host at an address, which anybody can send.
func forgery(t testing.TB, name, id, addr string) []byte {
	t.Helper()
	r := record{port: 8076, addrs: []netip.Addr{netip.MustParseAddr(addr)}}
	r.peer = announcing(name, id).Config.Self
	b, err := encodeAnnouncement(r, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sendTo sends a unicast packet.
func (s *socket) sendTo(t testing.TB, b []byte, to string) {
	t.Helper()
	if _, err := s.conn.WriteTo(b, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))); err != nil {
		t.Error(err)
	}
}

func TestUnicastFromOffLinkIsIgnored(t *testing.T) {
	l, onLink, pc := pair(t)
	l.addSwitch("sw1")
	router, attacker := l.addHost(), l.addHost()
	router.plug("eth0", "sw0", "10.0.0.254/24")
	router.plug("eth1", "sw1", "10.9.0.254/24")
	router.setting("ipv4/ip_forward", "1")
	attacker.plug("eth0", "sw1", "10.9.0.66/24")
	attacker.route("10.0.0.0/24", "10.9.0.254")
	pc.route("10.9.0.0/24", "10.0.0.254")
	w := startNode(t, pc, watching())

	// The route works: a packet to another port arrives.
	var otherPort net.PacketConn
	onThread(t, func() (err error) {
		if err = netns.Set(pc.ns); err == nil {
			otherPort, err = net.ListenPacket("udp4", ":9999")
		}
		return err
	})
	defer otherPort.Close()
	from := attacker.socket(ip4)
	from.sendTo(t, []byte("hello"), "10.0.0.1:9999")
	otherPort.SetReadDeadline(await.Deadline())
	if _, by, err := otherPort.ReadFrom(make([]byte, 10)); err != nil || by.(*net.UDPAddr).Port != mdnsPort {
		t.Fatalf("got %v, %v, want a packet from the attacker", by, err)
	}

	here := onLink.socket(ip4)
	end := await.Deadline()
	for found := false; !found; { // until the browser listens
		from.sendTo(t, forgery(t, "stranger", "66", "10.0.0.2"), "10.0.0.1:5353")
		here.sendTo(t, forgery(t, "neighbour", "b1", "10.0.0.2"), "10.0.0.1:5353")
		r, moved := w.last()
		if found = named("neighbour")(r.Peers); found {
			break
		}
		if len(r.Peers) > 0 || time.Now().After(end) {
			t.Fatalf("got %v, want the neighbour alone", r.Peers)
		}
		select {
		case <-moved:
		case <-time.After(50 * time.Millisecond):
		}
	}
	for _, r := range w.history() {
		if slices.ContainsFunc(r.Peers, func(p Peer) bool { return p.Host == "stranger" }) {
			t.Errorf("got %v, want no host of the attacker", r.Peers)
		}
	}
}

// A unicast packet must come from a subnet of the interface on which it arrived.
func TestUnicastSourceMustMatchInterfaceSubnet(t *testing.T) {
	eth, wifi := testLink(2, "eth0", "10.0.0.1/24", "fe80::1/64", "2001:db8::1/64"), testLink(3, "wlan0", "10.1.0.1/24")
	links := []link{eth, wifi}
	for _, c := range []struct {
		from, to string
		via      link
		want     bool
	}{
		{"10.0.0.2", "10.0.0.1", eth, true},
		{"10.1.0.2", "10.0.0.1", eth, false},
		{"10.1.0.2", "10.1.0.1", wifi, true},
		{"192.0.2.7", "10.0.0.1", eth, false},
		{"192.0.2.7", "224.0.0.251", eth, true},
		{"192.0.2.7", "224.0.0.252", eth, false},
		{"10.0.0.2", "10.0.0.255", eth, true},
		{"192.0.2.7", "10.0.0.255", eth, false},
		{"fe80::2%eth0", "fe80::1", eth, true},
		{"fe80::2%wlan0", "2001:db8::1", wifi, true},
		{"2001:db8::2", "2001:db8::1", eth, true},
		{"2001:db8:1::2", "2001:db8::1", eth, false},
		{"2001:db8:1::2", "ff02::fb", eth, true},
		{"2001:db8:1::2", "ff05::fb", eth, false},
	} {
		h := packetSource{netip.MustParseAddr(c.from), c.via, links}
		if got := h.accepts(netip.MustParseAddr(c.to)); got != c.want {
			t.Errorf("from %s to %s on %s: got %v, want %v", c.from, c.to, c.via.iface.Name, got, c.want)
		}
	}
	if (packetSource{netip.MustParseAddr("192.0.2.7"), eth, links}).accepts(netip.Addr{}) {
		t.Error("believed a packet of which the kernel does not say where it was sent to")
	}
}

// The robot announces itself in the middle of a flood of forged announcements.
func TestHostIsFoundDuringFloodOfForgedAnnouncements(t *testing.T) {
	robot := forgery(t, "robot", "a1", "10.0.0.2")
	for what, sources := range map[string]int{"of one source": 1, "of a hundred sources": 100} {
		eth := testLink(2, "eth0", "10.0.0.1/24")
		w := &browseState{Browser: &Browser{log: slog.New(slog.DiscardHandler)}, table: newTable(Peer{}), links: []link{eth}, allLinks: []link{eth}, startedAt: t0}
		taken := newRateLimiter()
		add := func(now time.Time, b []byte, from netip.Addr) {
			if !taken.allow(now, from) {
				return
			}
			p, err := parsePacket(b)
			if err != nil {
				t.Fatal(err)
			}
			w.learnPacket(now, receivedPacket{p, arrival{from: netip.AddrPortFrom(from, mdnsPort), to: group4, ifIndex: 2}})
		}
		for i := range 4 * maxClaims { // two thousand a second
			now := after(time.Duration(i) * time.Second / 2000)
			add(now, forgery(t, fmt.Sprint("krang", i), fmt.Sprintf("%08x", i), "10.0.0.66"), netip.AddrFrom4([4]byte{10, 0, 0, byte(100 + i%sources)}))
			if i == 2*maxClaims {
				add(now, robot, addr("10.0.0.2"))
			}
		}
		peers := w.table.peers()
		if !slices.ContainsFunc(peers, func(p Peer) bool { return p.Host == "robot" }) {
			t.Errorf("%s: the robot is not found", what)
		}
		if most := min(maxClaims, sources*maxSourceClaims+1); len(peers) > most {
			t.Errorf("%s: got %d claims, want at most %d", what, len(peers), most)
		}
	}
}
