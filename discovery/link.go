package discovery

import (
	"cmp"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
)

// link is a network interface and its addresses.
type link struct {
	iface    net.Interface
	prefixes []netip.Prefix // addresses of the interface with their subnets, sorted
}

// usableLinks returns the interfaces that discovery can use now, sorted by index: those of the names that are up or,
// without names, all that are up and support multicast.
func usableLinks(names []string) ([]link, error) {
	return linksThat(func(i net.Interface) bool { return isUsable(i, names) })
}

// searchLinks returns usableLinks, or an error if there are none.
func searchLinks(names []string) ([]link, error) {
	links, err := usableLinks(names)
	if err == nil && len(links) == 0 {
		err = noInterface(names)
	}
	return links, err
}

func isUsable(i net.Interface, names []string) bool {
	if len(names) > 0 {
		return slices.Contains(names, i.Name)
	}
	return i.Flags&net.FlagMulticast != 0
}

// allLinks returns all interfaces that are up, sorted by index, including those that discovery does not use.
func allLinks() ([]link, error) {
	return linksThat(func(net.Interface) bool { return true })
}

func linksThat(wanted func(net.Interface) bool) ([]link, error) {
	ifaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	prefixes, err := prefixesByIndex()
	if err != nil {
		return nil, err
	}
	var links []link
	for _, i := range ifaces {
		if wanted(i) && i.Flags&net.FlagUp != 0 {
			links = append(links, link{iface: i, prefixes: prefixes[i.Index]})
		}
	}
	slices.SortFunc(links, func(a, b link) int { return cmp.Compare(a.iface.Index, b.iface.Index) })
	return links, nil
}

// prefixesByIndex returns the addresses of each interface with their subnets, sorted, indexed by interface. It reads all
// of them with one system call, while net.Interface.Addrs makes the kernel list the addresses of all interfaces for each.
func prefixesByIndex() (map[int][]netip.Prefix, error) {
	dump, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil, os.NewSyscallError("netlinkrib", err)
	}
	messages, err := syscall.ParseNetlinkMessage(dump)
	if err != nil {
		return nil, os.NewSyscallError("parsenetlinkmessage", err)
	}
	all := map[int][]netip.Prefix{}
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
			continue
		}
		bits, index := int(m.Data[1]), int(binary.NativeEndian.Uint32(m.Data[4:])) // struct ifaddrmsg
		if a, ok := ownAddress(m); ok && bits <= a.BitLen() {
			all[index] = append(all[index], netip.PrefixFrom(a, bits))
		}
	}
	for _, list := range all {
		slices.SortFunc(list, func(a, b netip.Prefix) int {
			return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
		})
	}
	return all, nil
}

// ownAddress returns this host's address in an RTM_NEWADDR message: IFA_LOCAL if there is one, since on a point-to-point
// link IFA_ADDRESS is the address of the other end.
func ownAddress(m syscall.NetlinkMessage) (a netip.Addr, ok bool) {
	attributes, err := syscall.ParseNetlinkRouteAttr(&m)
	if err != nil {
		return a, false
	}
	for _, attribute := range attributes {
		switch attribute.Attr.Type {
		case syscall.IFA_LOCAL:
			return netip.AddrFromSlice(attribute.Value)
		case syscall.IFA_ADDRESS:
			a, ok = netip.AddrFromSlice(attribute.Value)
		}
	}
	return a, ok
}

// has reports whether l has an address of the family.
func (l link) has(f family) bool {
	return slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return p.Addr().Is6() == (f == ip6) })
}

// sameSockets reports whether sockets made for a also serve b: both have the same interfaces with the same families.
func sameSockets(a, b []link) bool {
	return slices.EqualFunc(a, b, func(a, b link) bool {
		return a.iface.Index == b.iface.Index && a.iface.Name == b.iface.Name &&
			a.has(ip4) == b.has(ip4) && a.has(ip6) == b.has(ip6)
	})
}

// sameLinks reports whether a and b are equal, including addresses and the interfaces' flags.
func sameLinks(a, b []link) bool {
	return slices.EqualFunc(a, b, func(a, b link) bool {
		return a.iface.Index == b.iface.Index && a.iface.Name == b.iface.Name && a.iface.Flags == b.iface.Flags &&
			slices.Equal(a.prefixes, b.prefixes)
	})
}

func interfacesOf(links []link) []net.Interface {
	out := make([]net.Interface, len(links))
	for i, l := range links {
		out[i] = l.iface
	}
	return out
}

func namesOf(links []link) []string {
	out := make([]string, len(links))
	for i, l := range links {
		out[i] = l.iface.Name
	}
	return out
}
