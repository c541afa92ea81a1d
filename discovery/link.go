package discovery

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
)

// link is one network interface that multicast is used on.
type link struct {
	iface    net.Interface
	prefixes []netip.Prefix // its addresses with their subnets, sorted
}

// usableLinks lists the interfaces that can be used now, by index: the named ones that are up or, without
// names, all that are up and say that they can multicast.
func usableLinks(names []string) ([]link, error) {
	return linksThat(func(i net.Interface) bool {
		if len(names) > 0 {
			return slices.Contains(names, i.Name)
		}
		return i.Flags&net.FlagMulticast != 0
	})
}

// allLinks lists all interfaces that are up, by index, also those that discovery does not use.
func allLinks() ([]link, error) {
	return linksThat(func(net.Interface) bool { return true })
}

func linksThat(wanted func(net.Interface) bool) ([]link, error) {
	ifaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var links []link
	for _, i := range ifaces {
		if !wanted(i) || i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // the interface has just gone: the next listing will lack it
		}
		links = append(links, link{iface: i, prefixes: prefixesOf(addrs)})
	}
	slices.SortFunc(links, func(a, b link) int { return cmp.Compare(a.iface.Index, b.iface.Index) })
	return links, nil
}

func prefixesOf(addrs []net.Addr) []netip.Prefix {
	var ps []netip.Prefix
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			ps = append(ps, p)
		}
	}
	slices.SortFunc(ps, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return ps
}

// has reports whether the link has an address of the family.
func (l link) has(f family) bool {
	return slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return p.Addr().Is6() == (f == ip6) })
}

// sameSockets reports whether sockets made for a also serve b: the same interfaces with the same address families.
func sameSockets(a, b []link) bool {
	return slices.EqualFunc(a, b, func(a, b link) bool {
		return a.iface.Index == b.iface.Index && a.iface.Name == b.iface.Name &&
			a.has(ip4) == b.has(ip4) && a.has(ip6) == b.has(ip6)
	})
}

// sameLinks reports whether a and b are equal, with their addresses and the state of their cables.
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
