package hosts

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"achbridge/testnet"
)

const (
	tunPath    = "/dev/net/tun"
	interface0 = "eth0"
)

// openTap creates eth0 in this network namespace and returns the file of the TAP
// device. Closing the file removes the device.
func openTap() (int, error) {
	fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", tunPath, err)
	}
	request, err := unix.NewIfreq(interface0)
	if err != nil {
		return 0, err
	}
	// Plain Ethernet frames, without a header before them and without segmentation offload.
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("make tap device: %w", err)
	}
	return fd, nil
}

// configure assigns addresses to lo and eth0 and sets the interfaces up.
func configure(number, hosts int) error {
	// Disable detection of duplicate IPv6 addresses, which takes a second, and routers.
	for key, value := range map[string]string{"accept_dad": "0", "dad_transmits": "0", "accept_ra": "0", "router_solicitations": "0"} {
		// A kernel without IPv6 has none of these files. AddrAdd then fails.
		os.WriteFile("/proc/sys/net/ipv6/conf/"+interface0+"/"+key, []byte(value), 0o644)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("lo: set up: %w", err)
	}
	eth, err := netlink.LinkByName(interface0)
	if err != nil {
		return fmt.Errorf("%s: %w", interface0, err)
	}
	mac := hardwareOf(number)
	if err := netlink.LinkSetHardwareAddr(eth, mac[:]); err != nil {
		return fmt.Errorf("%s: set hardware address: %w", interface0, err)
	}
	if err := netlink.LinkSetUp(eth); err != nil {
		return fmt.Errorf("%s: set up: %w", interface0, err)
	}
	for _, address := range []netlink.Addr{
		{IPNet: &net.IPNet{IP: testnet.HostAddr4(number).AsSlice(), Mask: net.CIDRMask(24, 32)}},
		{IPNet: &net.IPNet{IP: testnet.HostAddr6(number).AsSlice(), Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD},
	} {
		if err := netlink.AddrAdd(eth, &address); err != nil {
			return fmt.Errorf("%s: add address %v: %w", interface0, address.IPNet, err)
		}
	}
	if err := waitForRoute(testnet.HostAddr6(number)); err != nil {
		return err
	}
	// There is no default route, so packets to addresses outside the lab fail at once.
	// Multicast is sent on eth0.
	multicast := &net.IPNet{IP: net.IPv4(224, 0, 0, 0).To4(), Mask: net.CIDRMask(4, 32)}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: multicast, Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("%s: add multicast route: %w", interface0, err)
	}
	return addHardwareAddrs(eth.Attrs().Index, number, hosts)
}

// waitForRoute waits until this host accepts packets to its IPv6 address. A worker of the
// kernel adds the route for them, and until then the packets are dropped.
func waitForRoute(address netip.Addr) error {
	local := netlink.Route{Table: unix.RT_TABLE_LOCAL}
	for range 5000 {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V6, &local, netlink.RT_FILTER_TABLE)
		if err != nil {
			return fmt.Errorf("%s: list routes: %w", interface0, err)
		}
		if slices.ContainsFunc(routes, func(r netlink.Route) bool { return r.Dst != nil && r.Dst.IP.Equal(address.AsSlice()) }) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("%s: after 5 s there is no local route for %v", interface0, address)
}

// addHardwareAddrs adds permanent neighbour entries for the other hosts, so that no
// measurement begins with ARP, whose queue would drop most of a burst. An interface
// that was down loses the entries, and then uses ARP.
func addHardwareAddrs(link, number, hosts int) error {
	for other := range hosts {
		if other == number {
			continue
		}
		mac := hardwareOf(other)
		for _, addr := range []netip.Addr{testnet.HostAddr4(other), testnet.HostAddr6(other)} {
			n := netlink.Neigh{LinkIndex: link, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(), HardwareAddr: mac[:]}
			if err := netlink.NeighAdd(&n); err != nil {
				return fmt.Errorf("%s: add neighbour %v: %w", interface0, addr, err)
			}
		}
	}
	return nil
}
