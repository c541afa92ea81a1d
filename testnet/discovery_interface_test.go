package testnet_test

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"achbridge/testnet/need"
)

// changeEth0 changes the interface eth0 of a host.
func (s *site) changeEth0(host string, change func(*netlink.Handle, netlink.Link) error) {
	s.t.Helper()
	pid, err := s.lab.PID(host)
	if err != nil {
		s.t.Fatal(err)
	}
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		s.t.Fatal(err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		s.t.Fatal(err)
	}
	defer h.Close()
	eth, err := h.LinkByName("eth0")
	if err == nil {
		err = change(h, eth)
	}
	if err != nil {
		s.t.Fatalf("eth0 of %s: %v", host, err)
	}
}

// removeAddrs removes the addresses from an interface for which remove returns true.
func removeAddrs(remove func(net.IP) bool) func(*netlink.Handle, netlink.Link) error {
	return func(h *netlink.Handle, eth netlink.Link) error {
		addrs, err := h.AddrList(eth, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if remove(a.IP) {
				if err := h.AddrDel(eth, &a); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func isIPv4(ip net.IP) bool { return ip.To4() != nil }

// Hosts link over one address family, also if their system names are not valid in DNS.
func TestHostsLinkOverSingleAddressFamily(t *testing.T) {
	t.Parallel()
	for family, c := range map[string]struct {
		remove       func(net.IP) bool
		system, name string // host name of the robot's system, and its name on the network
	}{
		"IPv4 only":       {func(ip net.IP) bool { return !isIPv4(ip) }, "Robot Nr 1", "Robot-Nr-1"},
		"IPv6 only":       {isIPv4, "büro", "b--ro"},
		"link-local only": {func(ip net.IP) bool { return !ip.IsLinkLocalUnicast() }, `'; rm -rf "x" `, "---rm--rf--x--"},
	} {
		t.Run(family, func(t *testing.T) {
			if family != "link-local only" {
				need.Long(t)
			}
			s := newSite(t, "robot", "pc")
			s.shell("robot", `printf %s "$0" >/proc/sys/kernel/hostname`, c.system)
			for _, host := range []string{"robot", "pc"} {
				s.changeEth0(host, removeAddrs(c.remove))
			}
			s.publish("robot", imu)
			s.run("robot")
			s.run("pc", "--mirror", c.name+"/imu")
			view := "keep:" + c.name + ".imu"
			t.Logf("mirrored after %v", s.observe("pc", view).waitUntilFollowing(now(), meetLimit, view))
		})
	}
}
