package discovery

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/net/ipv4"
)

// socket opens the mDNS port on a host. What is sent by it has the port of an announcement.
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

// links are the interfaces of a host.
func (h *host) links() (links []link) {
	h.lab.t.Helper()
	onThread(h.lab.t, func() error {
		err := netns.Set(h.ns)
		if err == nil {
			links, err = usableLinks(nil)
		}
		return err
	})
	return links
}

// setting writes a file in /proc/sys/net of a host.
func (h *host) setting(file, value string) {
	h.lab.t.Helper()
	onThread(h.lab.t, func() error {
		return errors.Join(netns.Set(h.ns), os.WriteFile("/proc/sys/net/"+file, []byte(value), 0))
	})
}

// route leads to a network by way of a router.
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

// forgery is an announcement as anybody can make it.
func forgery(t testing.TB, name, id, addr string) []byte {
	t.Helper()
	r := record{port: 8076, addrs: []netip.Addr{netip.MustParseAddr(addr)}}
	r.peer = announcing(name, id).Config.Self
	b, err := announcement(r, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tell sends a packet to one host alone.
func (s *socket) tell(t testing.TB, b []byte, to string) {
	t.Helper()
	if _, err := s.conn.WriteTo(b, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))); err != nil {
		t.Error(err)
	}
}

func TestUnicastFromOffTheLinkIsNotBelieved(t *testing.T) {
	l, neighbour, pc := pair(t)
	l.addSwitch("sw1")
	router, stranger := l.addHost(), l.addHost()
	router.plug("eth0", "sw0", "10.0.0.254/24")
	router.plug("eth1", "sw1", "10.9.0.254/24")
	router.setting("ipv4/ip_forward", "1")
	stranger.plug("eth0", "sw1", "10.9.0.66/24")
	stranger.route("10.0.0.0/24", "10.9.0.254")
	pc.route("10.9.0.0/24", "10.0.0.254")
	w := startNode(t, pc, watching())

	// The way is there: a packet to another port comes through.
	var heard net.PacketConn
	onThread(t, func() (err error) {
		if err = netns.Set(pc.ns); err == nil {
			heard, err = net.ListenPacket("udp4", ":9999")
		}
		return err
	})
	defer heard.Close()
	from := stranger.socket(ip4)
	from.tell(t, []byte("hello"), "10.0.0.1:9999")
	heard.SetReadDeadline(time.Now().Add(patience))
	if _, by, err := heard.ReadFrom(make([]byte, 10)); err != nil || by.(*net.UDPAddr).Port != mdnsPort {
		t.Fatalf("got %v, %v, want a packet from the stranger", by, err)
	}

	here := neighbour.socket(ip4)
	end := time.Now().Add(patience)
	for found := false; !found; { // the browser may not listen yet
		from.tell(t, forgery(t, "stranger", "66", "10.0.0.2"), "10.0.0.1:5353")
		here.tell(t, forgery(t, "neighbour", "b1", "10.0.0.2"), "10.0.0.1:5353")
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
			t.Errorf("got %v, want nothing of the stranger", r.Peers)
		}
	}
}

// What is sent to the address of one interface has to come from the network of that one.
func TestUnicastIsOfTheInterfaceThatItCameInBy(t *testing.T) {
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
		h := hearing{netip.MustParseAddr(c.from), c.via, links}
		if got := h.believes(netip.MustParseAddr(c.to)); got != c.want {
			t.Errorf("from %s to %s on %s: got %v, want %v", c.from, c.to, c.via.iface.Name, got, c.want)
		}
	}
	if (hearing{netip.MustParseAddr("192.0.2.7"), eth, links}).believes(netip.Addr{}) {
		t.Error("believed a packet of which the kernel does not say where it was sent to")
	}
}

func TestTwoSubnetsOnOneCableMeet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addSwitch("sw0")
	robot, pc := l.addHost(), l.addHost()
	robot.plug("eth0", "sw0", "10.1.0.2/24")
	pc.plug("eth0", "sw0", "10.0.0.1/24")
	w := startNode(t, pc, watching())
	startNode(t, robot, announcing("robot", "a1"))
	w.until("the robot at its source", patience, func(ps []Peer) bool {
		return len(ps) == 1 && slices.Contains(ps[0].Addrs, ports("10.1.0.2:8076")[0])
	})
}

// reflect passes on between two switches what is sent to the group, as avahi-daemon's reflector does.
func (l *lab) reflect(sw0, sw1 string) {
	l.t.Helper()
	r := l.addHost()
	r.plug("eth0", sw0, "10.0.0.254/24")
	r.plug("eth1", sw1, "10.9.0.254/24")
	links := r.links()
	for _, f := range []family{ip4, ip6} {
		s := r.socket(f)
		for _, k := range links {
			if err := s.join(k.iface); err != nil {
				l.t.Fatal(err)
			}
		}
		go func() {
			buf := make([]byte, maxPacket)
			for {
				n, at, err := s.receive(buf)
				if err != nil {
					return
				}
				for _, k := range links {
					if own := slices.ContainsFunc(links, func(o link) bool { return o.owns(at.from.Addr().WithZone("")) }); !own && k.iface.Index != at.ifIndex {
						s.send(buf[:n], k.iface)
					}
				}
			}
		}()
	}
}

func TestReflectedHostIsToldAndOnlyDialledIfListed(t *testing.T) {
	l, _, pc := pair(t)
	l.addSwitch("sw1")
	robot := l.addHost()
	robot.plug("eth0", "sw1", "10.9.0.2/24")
	l.reflect("sw0", "sw1")
	w := startNode(t, pc, watching())
	o := watching()
	o.Peers = []string{"10.9.0.2"}
	listing := startNode(t, pc, o)
	startNode(t, robot, announcing("robot", "a1"))
	far := func(ps []Peer) bool {
		return slices.ContainsFunc(ps, func(p Peer) bool {
			return p.Host == "robot" && slices.Equal(p.Far, ports("10.9.0.2:8076"))
		})
	}
	w.until("the robot far away", patience, far)
	for _, r := range w.history() {
		for _, p := range r.Claims {
			for _, a := range p.Addrs {
				if !a.Addr().IsLinkLocalUnicast() || a.Addr() == p.By {
					t.Errorf("got %v by %v to dial, want neither the reflector nor what is behind it", a, p.By)
				}
			}
		}
	}
	listing.until("the listed robot, to be dialled", patience, func(ps []Peer) bool {
		return len(ps) == 1 && ps[0].Host == "robot" && ps[0].Source == SourceStatic && slices.Contains(ps[0].Addrs, ports("10.9.0.2:8076")[0])
	})
}

// flood sends announcements of nodes that there are not, two thousand a second, from so many addresses of the host,
// until the test ends. It returns when more are out than a table holds.
func (h *host) flood(sources int) {
	h.lab.t.Helper()
	var from []*ipv4.ControlMessage
	eth := h.links()[0].iface.Index
	for i := range sources {
		addr := fmt.Sprintf("10.0.0.%d", 100+i)
		h.address("eth0", addr+"/24")
		from = append(from, &ipv4.ControlMessage{Src: net.ParseIP(addr), IfIndex: eth})
	}
	out := h.socket(ip4)
	liar := announcing("krang", "00")
	for i := range 100 {
		liar.Config.Self.Channels = append(liar.Config.Self.Channels, Channel{fmt.Sprint("channel", i), 16, 512})
	}
	const enough = 6000
	sent := make(chan int)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 1; ; i++ {
			r := record{peer: liar.Config.Self, port: 8076, addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}}
			r.peer.Node, r.peer.Host = fmt.Sprintf("%032x", i), fmt.Sprint("krang", i)
			b, err := announcement(r, time.Minute)
			if err == nil {
				_, err = out.v4.WriteTo(b, from[i%len(from)], out.group())
			}
			if i == enough || i < enough && err != nil {
				close(sent)
			}
			if err != nil {
				return
			}
			if i%20 == 0 {
				<-tick.C
			}
		}
	}()
	<-sent
}

// peakMemory is the most memory that a node has had, in KiB.
func (p *process) peakMemory() (kib int) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		p.t.Fatal(err)
	}
	return kib
}

func TestHostIsFoundInAFloodOfForgedAnnouncements(t *testing.T) {
	for what, sources := range map[string]int{"of one source": 1, "of a hundred sources": 100} {
		t.Run(what, func(t *testing.T) {
			l, robot, pc := pair(t)
			attacker := l.addHost()
			attacker.plug("eth0", "sw0")
			o := watching()
			o.Brief = true
			w := startNode(t, pc, o)
			attacker.flood(sources)
			startNode(t, robot, announcing("robot", "a1"))
			took := w.until("the robot", patience, func(ps []Peer) bool { return len(ps) > 0 })
			r, _ := w.last()
			t.Logf("found after %v beside %d forged claims; the node has had %d KiB", took, r.Count-1, w.peakMemory())
			if r.Count > maxClaims || sources == 1 && r.Count > maxOfSource+4 {
				t.Errorf("got %d claims, want at most %d in all and %d of one source", r.Count, maxClaims, maxOfSource)
			}
			if most := 128 << 10; w.peakMemory() > most {
				t.Errorf("the node has had %d KiB, want at most %d", w.peakMemory(), most)
			}
		})
	}
}
