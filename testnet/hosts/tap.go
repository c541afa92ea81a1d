package hosts

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"achbridge/testnet"
)

const (
	tunPath    = "/dev/net/tun"
	interface0 = "eth0"
)

// openTap makes eth0 in this network namespace and returns the end of its
// cable. The device vanishes when that is closed.
func openTap() (int, error) {
	fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", tunPath, err)
	}
	request, err := unix.NewIfreq(interface0)
	if err != nil {
		return 0, err
	}
	// Frames as on a cable: no header before them, no segments left to cut.
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("make tap device: %w", err)
	}
	return fd, nil
}

// configure gives lo and eth0 their addresses and sets them up.
func configure(number int) error {
	// No detection of duplicate IPv6 addresses (a second of waiting), no routers.
	for key, value := range map[string]string{"accept_dad": "0", "dad_transmits": "0", "accept_ra": "0", "router_solicitations": "0"} {
		// A kernel without IPv6 has none of these; AddrAdd will say so.
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
	mac := net.HardwareAddr{2, 0, 0x80, 0x76, 0, byte(number + 1)}
	if err := netlink.LinkSetHardwareAddr(eth, mac); err != nil {
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
	// No default route: what is not in the lab fails at once instead of waiting
	// for a neighbour. Multicast goes out of eth0.
	multicast := &net.IPNet{IP: net.IPv4(224, 0, 0, 0).To4(), Mask: net.CIDRMask(4, 32)}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: multicast, Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("%s: add multicast route: %w", interface0, err)
	}
	return nil
}

// timer is a timerfd: Go's own timers are up to a millisecond late when the
// process has nothing else to do.
type timer struct {
	file *os.File
	fd   int
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	return &timer{os.NewFile(uintptr(fd), "timer"), fd}, nil
}

// set makes wait return after d, at once if that is past.
func (t *timer) set(d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	return unix.TimerfdSettime(t.fd, 0, &spec, nil)
}

// wait blocks until the timer fires, or is closed: an error.
func (t *timer) wait() error {
	var count [8]byte
	_, err := t.file.Read(count[:])
	return err
}
