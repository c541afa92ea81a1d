package discovery

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grandcat/zeroconf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"achbridge/testnet/await"
)

// bridges adds bridges without ports to the host, like those of Docker networks.
func (h *host) bridges(first, count int) {
	h.lab.t.Helper()
	h.lab.at(h.ns, func(n *netlink.Handle) error {
		for i := first; i < first+count; i++ {
			b := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("br%d", i)}}
			if err := n.LinkAdd(b); err != nil {
				return err
			}
			addr, err := netlink.ParseAddr(fmt.Sprintf("172.%d.%d.1/24", 16+i/256, i%256))
			if err != nil {
				return err
			}
			if err := n.AddrAdd(b, addr); err != nil {
				return err
			}
			if err := n.LinkSetUp(b); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *host) removeBridges(first, count int) {
	h.lab.t.Helper()
	h.lab.at(h.ns, func(n *netlink.Handle) error {
		for i := first; i < first+count; i++ {
			link, err := n.LinkByName(fmt.Sprintf("br%d", i))
			if err != nil {
				return err
			}
			if err := n.LinkDel(link); err != nil {
				return err
			}
		}
		return nil
	})
}

// Linux lets a socket join 20 IPv4 groups, and counts each interface.
func TestMoreThanTwentyInterfacesAreUsed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addSwitch("radio")
	robot, pc := l.addHost(), l.addHost()
	for _, h := range []*host{robot, pc} {
		h.withoutIPv6()
	}
	pc.bridges(0, 25)
	w := startNode(t, pc, watching())
	startNode(t, robot, announcing("robot", "a1"))
	pc.plug("radio0", "radio", "10.1.0.1/24")
	robot.plug("radio0", "radio", "10.1.0.2/24")
	w.waitFor("the robot at its radio", at("10.1.0.2:8076"))
	w.quit()
	if text := w.stderr.String(); strings.Contains(text, "cannot join") {
		t.Errorf("got log %q", text)
	}
}

// The kernel counts memberships on removed interfaces until the socket leaves the group.
func TestRemovedInterfacesFreeTheirMemberships(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	h := l.addHost()
	read := 0
	group := sockets{family: ip4, read: func(*socket) { read++ }}
	defer func() { group.close() }()
	for round := range 3 {
		h.bridges(15*round, 15)
		onThread(t, func() error {
			if err := netns.Set(h.ns); err != nil {
				return err
			}
			links, err := usableLinks(nil)
			if err != nil {
				return err
			}
			group.retain(links)
			for _, l := range links {
				if err := group.join(l.iface); err != nil {
					return err
				}
			}
			return nil
		})
		h.removeBridges(15*round, 15)
	}
	if read != 1 || len(group.list) != 1 {
		t.Errorf("got %d sockets, want one", read)
	}
}

// Package net reads the addresses of each interface separately.
func TestPrefixesByIndexMatchesPackageNet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	h := l.addHost()
	h.bridges(0, 3)
	h.address("br1", "fd00::7/64")
	h.change("br2", "10.9.0.1/32", func(n *netlink.Handle, link netlink.Link, a *netlink.Addr) error {
		peer, err := netlink.ParseIPNet("10.9.0.2/32")
		a.Peer = peer
		if err != nil {
			return err
		}
		return n.AddrAdd(link, a)
	})
	onThread(t, func() error {
		if err := netns.Set(h.ns); err != nil {
			return err
		}
		links, err := allLinks()
		if err != nil {
			return err
		}
		for _, l := range links {
			addrs, err := l.iface.Addrs()
			if err != nil {
				return err
			}
			var want []string
			for _, a := range addrs {
				want = append(want, a.String())
			}
			var got []string
			for _, p := range l.prefixes {
				got = append(got, p.String())
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", l.iface.Name, got, want)
			}
		}
		if len(links) != 3 {
			t.Errorf("got %d links, want those that are up", len(links))
		}
		return nil
	})
}

// A resolver of zeroconf has one socket for all its interfaces.
func TestBrowseAchdUsesMoreThanTwentyInterfaces(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addSwitch("radio")
	robot, pc := l.addHost(), l.addHost()
	for _, h := range []*host{robot, pc} {
		h.withoutIPv6()
	}
	pc.bridges(0, 25)
	pc.plug("radio0", "radio", "10.1.0.1/24")
	robot.plug("radio0", "radio", "10.1.0.2/24")
	var server *zeroconf.Server
	onThread(t, func() (err error) {
		if err := netns.Set(robot.ns); err != nil {
			return err
		}
		links, err := usableLinks(nil)
		if err != nil {
			return err
		}
		server, err = zeroconf.RegisterProxy("imu", "_ach._tcp", "local.", 8076, "robot", []string{"10.1.0.2"}, nil, interfacesOf(links))
		return err
	})
	t.Cleanup(server.Shutdown)
	await.NoError(t, func() error {
		var list []AchdChannel
		var at netip.Addr
		onThread(t, func() (err error) {
			if err := netns.Set(pc.ns); err != nil {
				return err
			}
			if list, err = BrowseAchd(t.Context(), nil, 3*time.Second); err != nil {
				return err
			}
			at, _ = NewAchdHosts(nil).Addr(t.Context(), "robot.local")
			return nil
		})
		if len(list) != 1 || list[0].Channel != "imu" || list[0].Addr != netip.MustParseAddrPort("10.1.0.2:8076") {
			return fmt.Errorf("got %v, want the robot's imu", list)
		}
		if at != netip.MustParseAddr("10.1.0.2") {
			return fmt.Errorf("address of robot.local: got %v, want 10.1.0.2", at)
		}
		return nil
	})
}
