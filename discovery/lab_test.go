package discovery

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"achbridge/testnet/need"
)

// lab is a network of namespaces: hosts, and Ethernet switches in a namespace of their own.
type lab struct {
	t   *testing.T
	hub netns.NsHandle
}

// host is one namespace of a lab.
type host struct {
	lab *lab
	ns  netns.NsHandle
}

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Missing(t, "network namespaces need root: run `sudo go test ./discovery`")
	}
	return &lab{t: t, hub: newNamespace(t)}
}

// newNamespace creates a network namespace for the duration of the test. IPv6 addresses in it are usable at once.
func newNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	var ns netns.NsHandle
	onThread(t, func() (err error) {
		if ns, err = netns.New(); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		for _, conf := range []string{"all", "default"} {
			path := "/proc/sys/net/ipv6/conf/" + conf + "/accept_dad"
			if err := os.WriteFile(path, []byte("0"), 0); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
		return nil
	})
	t.Cleanup(func() { ns.Close() })
	return ns
}

// onThread runs f on a thread that ends with f, so that f may leave the thread in any namespace.
func onThread(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// addSwitch adds a switch that floods multicast to every port.
func (l *lab) addSwitch(name string) {
	l.t.Helper()
	snooping := false
	l.at(l.hub, func(h *netlink.Handle) error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}, MulticastSnooping: &snooping}
		if err := h.LinkAdd(bridge); err != nil {
			return fmt.Errorf("bridge %s: %w", name, err)
		}
		return h.LinkSetUp(bridge)
	})
}

func (l *lab) addHost() *host {
	l.t.Helper()
	return &host{lab: l, ns: newNamespace(l.t)}
}

// plug connects the host to a switch with a new interface called nic that has the given addresses and an IPv6 link-local one.
func (h *host) plug(nic, sw string, addrs ...string) {
	h.lab.t.Helper()
	port := fmt.Sprintf("p%d-%s", int(h.ns), nic)
	h.lab.at(h.lab.hub, func(n *netlink.Handle) error {
		master, err := n.LinkByName(sw)
		if err != nil {
			return err
		}
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port, MasterIndex: master.Attrs().Index},
			PeerName: nic, PeerNamespace: netlink.NsFd(h.ns)}
		if err := n.LinkAdd(veth); err != nil {
			return fmt.Errorf("veth %s: %w", port, err)
		}
		return n.LinkSetUp(veth)
	})
	h.up(nic)
	for _, a := range addrs {
		h.address(nic, a)
	}
}

func (h *host) address(nic, cidr string) { h.change(nic, cidr, (*netlink.Handle).AddrReplace) }

// lose removes an address.
func (h *host) lose(nic, cidr string) { h.change(nic, cidr, (*netlink.Handle).AddrDel) }

func (h *host) change(nic, cidr string, change func(*netlink.Handle, netlink.Link, *netlink.Addr) error) {
	h.lab.t.Helper()
	h.lab.at(h.ns, func(n *netlink.Handle) error {
		link, err := n.LinkByName(nic)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(cidr)
		if err != nil {
			return err
		}
		return change(n, link, addr)
	})
}

func (h *host) up(nic string)   { h.set(nic, (*netlink.Handle).LinkSetUp) }
func (h *host) down(nic string) { h.set(nic, (*netlink.Handle).LinkSetDown) }

func (h *host) set(nic string, state func(*netlink.Handle, netlink.Link) error) {
	h.lab.t.Helper()
	h.lab.at(h.ns, func(n *netlink.Handle) error {
		link, err := n.LinkByName(nic)
		if err != nil {
			return err
		}
		return state(n, link)
	})
}

// at calls f with a handle for the links of a namespace.
func (l *lab) at(ns netns.NsHandle, f func(*netlink.Handle) error) {
	l.t.Helper()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		l.t.Fatal(err)
	}
	defer h.Close()
	if err := f(h); err != nil {
		l.t.Fatal(err)
	}
}

// start starts a process in the host's namespace.
func (h *host) start(cmd *exec.Cmd) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(h.ns); err != nil {
			done <- err
			return
		}
		done <- cmd.Start()
	}()
	return <-done
}

// count returns a function that returns how many mDNS packets have passed a switch.
func (l *lab) count(sw string) func() int {
	l.t.Helper()
	counts := make(chan int, 1)
	counts <- 0
	for _, f := range []family{ip4, ip6} {
		var s *socket
		onThread(l.t, func() error {
			if err := netns.Set(l.hub); err != nil {
				return err
			}
			links, err := usableLinks([]string{sw})
			if err != nil {
				return err
			}
			if s, err = openSocket(f); err != nil {
				return err
			}
			return s.join(links[0].iface)
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			buf := make([]byte, maxPacket)
			for {
				if _, _, err := s.receive(buf); err != nil {
					return
				}
				counts <- <-counts + 1
			}
		}()
		l.t.Cleanup(func() { s.Close(); <-done })
	}
	return func() int {
		n := <-counts
		counts <- n
		return n
	}
}
