package testnet_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// eth0 changes the interface of a host.
func (s *site) eth0(host string, change func(*netlink.Handle, netlink.Link) error) {
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

// without takes the addresses from an interface that are to go.
func without(gone func(net.IP) bool) func(*netlink.Handle, netlink.Link) error {
	return func(h *netlink.Handle, eth netlink.Link) error {
		addrs, err := h.AddrList(eth, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if gone(a.IP) {
				if err := h.AddrDel(eth, &a); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func isIPv4(ip net.IP) bool { return ip.To4() != nil }

// mirrored starts a robot and a PC and waits until its mirror follows; mirrors
// is the robot's name there.
func (s *site) mirrored(name string) (mirror func(after string)) {
	s.t.Helper()
	s.publish("robot", "imu:200:64")
	s.run("robot")
	s.run("pc", "--mirror", name+"/imu")
	view := "keep:" + name + ".imu"
	readers := s.observe("pc", view)
	s.t.Logf("mirrored after %v", readers.follows(now(), met, view))
	return func(after string) {
		s.t.Helper()
		s.t.Logf("%s: followed again after %v", after, readers.follows(now(), met, view))
	}
}

func TestHostsWithOneAddressFamilyMeet(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(net.IP) bool{
		"IPv4 only":       func(ip net.IP) bool { return !isIPv4(ip) },
		"IPv6 only":       isIPv4,
		"link-local only": func(ip net.IP) bool { return !ip.IsLinkLocalUnicast() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "robot", "pc")
			for _, host := range []string{"robot", "pc"} {
				s.eth0(host, without(gone))
			}
			s.mirrored("robot")
		})
	}
}

func TestMirrorFollowsARobotWhoseInterfaceWasDown(t *testing.T) {
	s := newSite(t, "robot", "pc")
	follows := s.mirrored("robot")
	s.eth0("robot", func(h *netlink.Handle, eth netlink.Link) error { return h.LinkSetDown(eth) })
	time.Sleep(2 * time.Second) // the length of the outage is what is tried
	s.eth0("robot", func(h *netlink.Handle, eth netlink.Link) error { return h.LinkSetUp(eth) })
	follows("interface down for 2 s")
}

func TestMirrorFollowsARobotToAnotherAddress(t *testing.T) {
	s := newSite(t, "robot", "pc")
	follows := s.mirrored("robot")
	old, err := s.lab.Addr("robot")
	if err != nil {
		t.Fatal(err)
	}
	renumbered := strings.TrimSuffix(old.String(), fmt.Sprint(old.As4()[3])) + "200/24"
	s.eth0("robot", without(func(ip net.IP) bool { return !ip.IsLinkLocalUnicast() }))
	s.eth0("robot", func(h *netlink.Handle, eth netlink.Link) error {
		addr, err := netlink.ParseAddr(renumbered)
		if err != nil {
			return err
		}
		return h.AddrAdd(eth, addr)
	})
	follows("at " + renumbered)
}

func TestHostNamesThatAreNoDNSLabels(t *testing.T) {
	t.Parallel()
	for system, name := range map[string]string{
		"Robot Nr 1":            "Robot-Nr-1",
		"büro":                  "b--ro",
		"robot.lab.example.com": "robot",
		strings.Repeat("r", 63): strings.Repeat("r", 63),
		"_4711_":                "_4711_",
		"-robot-":               "-robot-",
		"'; rm -rf \"x\" ":      "---rm--rf--x--",
	} {
		t.Run(name, func(t *testing.T) {
			if system != "büro" && !strings.Contains(system, "rm") {
				longRun(t)
			}
			s := newSite(t, "robot", "pc")
			script := `printf %s "$0" >/proc/sys/kernel/hostname`
			if out, err := s.lab.Command("robot", "sh", "-c", script, system).CombinedOutput(); err != nil {
				t.Fatalf("host name %q: %v\n%s", system, err, out)
			}
			s.publish("robot", "imu:200:64")
			s.run("robot")
			s.run("pc")
			await(t, met, func() error {
				list, _ := s.ls("pc", "--timeout", "200ms")
				return sameNames(list, name+"/imu")
			})
		})
	}
}
