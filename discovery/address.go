package discovery

import (
	"cmp"
	"net/netip"
	"slices"
)

// rank orders a peer's addresses: the lower, the sooner it should be dialled.
type rank uint8

const (
	rankHeard     rank = iota // the packet came from it, on its own subnet
	rankSubnet                // in the subnet of the interface it was heard on
	rankLinkLocal             // reachable through that interface only, and surely
	rankOther                 // in the subnet of another of our interfaces
	rankFar                   // behind a router, if anywhere
)

// Address is one address of a peer with its rank.
type Address struct {
	netip.AddrPort
	rank rank
}

// hearing is where a packet came from.
type hearing struct {
	from  netip.Addr
	via   link   // the interface it arrived on
	links []link // all that we use
}

// addresses ranks what r announced, and adds the address it was sent from, which is on the link beyond doubt.
// Addresses that cannot be the peer's from here are left out: unspecified, multicast, broadcast and loopback ones, and our
// own, which another host can have too (172.17.0.1 of every Docker host).
func (h hearing) addresses(r record) []Address {
	var out []Address
	for _, a := range append([]netip.Addr{h.from}, r.addrs...) {
		a = a.Unmap().WithZone("")
		k, ok := h.rank(a)
		if !ok {
			continue
		}
		if a.Is6() && a.IsLinkLocalUnicast() {
			a = a.WithZone(h.via.iface.Name)
		}
		out = append(out, Address{netip.AddrPortFrom(a, r.port), k})
	}
	return sortAddresses(out)
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

func (h hearing) rank(a netip.Addr) (rank, bool) {
	from := h.from.Unmap().WithZone("")
	switch {
	case !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a == broadcast:
		return 0, false
	case a.IsLoopback():
		return rankSubnet, h.via.contains(a)
	case a != from && h.ours(a) && !h.ours(from):
		return 0, false
	case a.Is6() && a.IsLinkLocalUnicast():
		return rankLinkLocal, true
	case h.via.contains(a) && a == from:
		return rankHeard, true
	case h.via.contains(a):
		return rankSubnet, true
	}
	for _, l := range h.links {
		if l.contains(a) {
			return rankOther, true
		}
	}
	return rankFar, true
}

func (h hearing) ours(a netip.Addr) bool {
	for _, l := range h.links {
		if l.owns(a) {
			return true
		}
	}
	return false
}

func (l link) owns(a netip.Addr) bool {
	return slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return p.Addr() == a })
}

func (l link) contains(a netip.Addr) bool {
	return slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// sortAddresses puts the best first, in an order that depends on nothing but the addresses, each once.
func sortAddresses(as []Address) []Address {
	slices.SortFunc(as, func(a, b Address) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.Compare(b.AddrPort))
	})
	seen := make(map[netip.AddrPort]bool, len(as))
	return slices.DeleteFunc(as, func(a Address) bool {
		dup := seen[a.AddrPort]
		seen[a.AddrPort] = true
		return dup
	})
}
