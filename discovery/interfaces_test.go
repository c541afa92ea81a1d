package discovery

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netns"
)

func TestPeerHasAddressesOfBothInterfaces(t *testing.T) {
	l, robot, pc := pair(t)
	l.addSwitch("sw1")
	robot.plug("eth1", "sw1", "10.1.0.2/24")
	pc.plug("eth1", "sw1", "10.1.0.1/24")
	w := startNode(t, pc, watching())
	o := announcing("robot", "a1")
	o.Config.Lifetime = 2 * time.Second
	startNode(t, robot, o)
	has := func(want ...string) func([]Peer) bool {
		return func(ps []Peer) bool {
			if len(ps) != 1 {
				return false
			}
			var got []string
			for _, a := range ps[0].Addrs {
				if a.Addr().Is4() {
					got = append(got, a.String())
				}
			}
			slices.Sort(got)
			return slices.Equal(got, want)
		}
	}
	w.waitFor("both addresses", has("10.0.0.2:8076", "10.1.0.2:8076"))
	robot.down("eth0")
	w.waitFor("the second alone", has("10.1.0.2:8076"))
	robot.up("eth0")
	w.waitFor("both again", has("10.0.0.2:8076", "10.1.0.2:8076"))
}

func TestOnlyTheListedInterfaceIsUsed(t *testing.T) {
	l, robot, pc := pair(t)
	l.addSwitch("sw1")
	robot.plug("eth1", "sw1", "10.1.0.2/24")
	pc.plug("eth1", "sw1", "10.1.0.1/24")
	counted := l.count("sw0")
	o := announcing("robot", "a1")
	o.Config.Interfaces = []string{"eth1"}
	startNode(t, robot, o)
	ask := watching()
	ask.Config.Interfaces = []string{"eth1"}
	w := startNode(t, pc, ask)
	w.waitFor("the robot on eth1", at("10.1.0.2:8076"))
	if n := counted(); n != 0 {
		t.Errorf("got %d packets on eth0's network, want none", n)
	}
}

func TestInterfaceAddedLaterIsUsed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addSwitch("sw0")
	robot, pc := l.addHost(), l.addHost()
	pc.plug("eth0", "sw0", "10.0.0.1/24")
	w := startNode(t, pc, watching())
	a := startNode(t, robot, announcing("robot", "a1"))
	robot.plug("eth0", "sw0", "10.0.0.2/24")
	w.waitFor("the robot", at("10.0.0.2:8076"))
	robot.address("eth0", "10.0.0.77/24")
	w.waitFor("its new address", func(ps []Peer) bool {
		return len(ps) == 1 && slices.Contains(ps[0].Addrs, netip.MustParseAddrPort("10.0.0.77:8076"))
	})
	a.quit()
}

// withoutIPv6 disables IPv6 on interfaces that are added later.
func (h *host) withoutIPv6() {
	h.lab.t.Helper()
	onThread(h.lab.t, func() error {
		return errors.Join(netns.Set(h.ns), os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0))
	})
}

func TestDiscoveryWorksOverIPv4Only(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.addSwitch("sw0")
	robot, pc := l.addHost(), l.addHost()
	for h, addr := range map[*host]string{robot: "10.0.0.2/24", pc: "10.0.0.1/24"} {
		h.withoutIPv6()
		h.plug("eth0", "sw0", addr)
	}
	w := startNode(t, pc, watching())
	a := startNode(t, robot, announcing("robot", "a1"))
	w.waitFor("the robot by IPv4", func(ps []Peer) bool {
		return len(ps) == 1 && slices.Equal(ps[0].Addrs, ports("10.0.0.2:8076"))
	})
	a.quit()
	w.waitFor("nobody", named())
	w.quit()
}
