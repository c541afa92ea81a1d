package discovery

import (
	"cmp"
	"net/netip"
	"slices"
)

// rank orders a peer's addresses. Addresses with a lower rank are dialled first.
type rank uint8

const (
	rankSource    rank = iota // source of the packet, in a subnet of the receiving interface
	rankSubnet                // in a subnet of the receiving interface
	rankLinkLocal             // link-local, reachable only through the receiving interface
	rankOther                 // in a subnet of another interface, or in an unknown subnet on the same cable
	rankFar                   // behind a router; dialled only if the user or a domain lists it
)

// address is one address of a peer with its rank.
type address struct {
	netip.AddrPort
	rank rank
}

// packetSource describes where a packet came from.
type packetSource struct {
	from  netip.Addr
	via   link   // the receiving interface
	links []link // all interfaces of this host
}

// addresses returns the addresses that r announces with their ranks. It uses the packet's source only if r announces it
// or announces no address, since the source may be a reflector. It omits addresses that cannot reach the peer from here:
// unspecified, multicast, broadcast and loopback addresses, and this host's own addresses, which another host may have too
// (as each Docker host has 172.17.0.1).
func (h packetSource) addresses(r record) []address {
	var out []address
	announced := r.addrs
	if len(announced) == 0 {
		announced = []netip.Addr{h.from}
	}
	for _, a := range announced {
		a = a.Unmap().WithZone("")
		k, ok := h.rank(a)
		if !ok {
			continue
		}
		if a.Is6() && a.IsLinkLocalUnicast() {
			a = a.WithZone(h.via.iface.Name)
		}
		out = append(out, address{netip.AddrPortFrom(a, r.port), k})
	}
	return sortAddresses(out)
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

func (h packetSource) rank(a netip.Addr) (rank, bool) {
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
		return rankSource, true
	case h.via.contains(a):
		return rankSubnet, true
	}
	for _, l := range h.links {
		if l.contains(a) {
			return rankOther, true
		}
	}
	if a == from { // several subnets on one cable (RFC 6762, section 11)
		return rankOther, true
	}
	return rankFar, true
}

// accepts reports whether to read a packet that was sent to dst. A packet to the multicast group is accepted from any
// source, since it has not crossed a router (RFC 6762, section 11). A unicast packet may come from anywhere, so its source
// must be on the link.
func (h packetSource) accepts(dst netip.Addr) bool {
	if isGroup(dst) {
		return true
	}
	from := h.from.Unmap()
	return !dst.IsMulticast() && (from.Is6() && from.IsLinkLocalUnicast() || h.via.contains(from.WithZone("")))
}

func isGroup(dst netip.Addr) bool { return dst == group4 || dst.WithZone("") == group6 }

func (h packetSource) ours(a netip.Addr) bool {
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

// sortAddresses sorts by rank, then by address, and removes duplicates.
func sortAddresses(as []address) []address {
	slices.SortFunc(as, func(a, b address) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.Compare(b.AddrPort))
	})
	seen := make(map[netip.AddrPort]bool, len(as))
	return slices.DeleteFunc(as, func(a address) bool {
		dup := seen[a.AddrPort]
		seen[a.AddrPort] = true
		return dup
	})
}
