package discovery

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// peers returns all claims and listed peers, sorted by host, node and address. The caller owns the slice, but must not
// change its elements.
func (t *table) peers() []Peer {
	peers := make([]Peer, 0, len(t.claims)+len(t.staticPeers))
	for _, c := range t.claims {
		p := c.peer
		p.Transport = t.transportOf(p)
		peers = append(peers, p)
	}
	for _, domain := range slices.Sorted(maps.Keys(t.zonePeers)) {
		for _, p := range t.zonePeers[domain] {
			if p.Node == "" || p.Node != t.self.Node {
				peers = append(peers, p)
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(t.staticPeers)) {
		peers = append(peers, t.staticPeers[text])
	}
	slices.SortStableFunc(peers, comparePeers)
	return peers
}

// transportOf returns the Transport of the listed peer that is the same node as p.
func (t *table) transportOf(p Peer) string {
	for _, text := range slices.Sorted(maps.Keys(t.staticPeers)) {
		if s := t.staticPeers[text]; s.Transport != "" && sameNode(s, p) {
			return s.Transport
		}
	}
	return ""
}

// selfHost returns the name of this node on other hosts: its host name, or NAME-ab12 if a node with a lower id announces
// the same name.
func (t *table) selfHost() string {
	for _, c := range t.claims {
		p := c.peer
		if t.self.Node != "" && p.Host == t.self.Host && p.Network == t.self.Network && p.Node < t.self.Node {
			const digits = 4
			return p.Host[:min(len(p.Host), maxName-1-digits)] + "-" + t.self.Node[:digits]
		}
	}
	return t.self.Host
}

// Hosts merges the entries of a table for people: all claims about one node under one name become one peer, with the newest
// data and all addresses. A listed peer is merged with the announcement that has its address. Do not dial the addresses in
// the result, since a forged announcement can add some.
func Hosts(peers []Peer) []Peer {
	sorted := slices.Clone(peers)
	order := map[string]int{sourceMDNS: 0, sourceDNS: 1, SourceStatic: 2}
	slices.SortStableFunc(sorted, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(order[a.Source], order[b.Source]), b.lastReceivedAt.Compare(a.lastReceivedAt), comparePeers(a, b))
	})
	var hosts []Peer
	for _, p := range sorted {
		i := slices.IndexFunc(hosts, func(h Peer) bool { return sameHost(h, p) })
		if i < 0 {
			hosts = append(hosts, p)
			continue
		}
		hosts[i] = merge(hosts[i], p)
	}
	slices.SortStableFunc(hosts, comparePeers)
	return hosts
}

// sameHost reports whether Hosts merges p into known.
func sameHost(known, p Peer) bool {
	if known.Node != "" && p.Node != "" {
		return known.Node == p.Node && known.Network == p.Network && (known.Host == p.Host || p.Source == sourceDNS)
	}
	return (p.Source != SourceStatic || known.Source != SourceStatic) && sameNode(p, known)
}

// sameNode reports whether a listed peer and an announced one are the same node: they have an address in common, or their
// names and IP addresses agree and only the port differs, as when the daemon has moved to another port.
func sameNode(listed, announced Peer) bool {
	for _, a := range listed.Addrs {
		for _, b := range slices.Concat(announced.Addrs, announced.Far) {
			if a == b || a.Addr() == b.Addr() && firstLabel(listed.Host) == firstLabel(announced.Host) {
				return true
			}
		}
	}
	return false
}

func firstLabel(host string) string {
	first, _, _ := strings.Cut(strings.ToLower(host), ".")
	return first
}

// merge adds the source and addresses of other to known and returns the result.
func merge(known, other Peer) Peer {
	if other.Source == SourceStatic {
		known.Source, known.Transport = SourceStatic, cmp.Or(known.Transport, other.Transport)
	}
	known.Addrs = union(known.Addrs, other.Addrs)
	known.Far = slices.DeleteFunc(union(known.Far, other.Far), func(a netip.AddrPort) bool { return slices.Contains(known.Addrs, a) })
	return known
}

// union returns a new slice with a and the addresses of b that are not in a, at most maxPeerAddrs.
func union(a, b []netip.AddrPort) []netip.AddrPort {
	all := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(all, x) && len(all) < maxPeerAddrs {
			all = append(all, x)
		}
	}
	return all
}

func comparePeers(a, b Peer) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Node, b.Node), a.By.Compare(b.By),
		slices.CompareFunc(a.Addrs, b.Addrs, netip.AddrPort.Compare), cmp.Compare(a.Port, b.Port))
}
