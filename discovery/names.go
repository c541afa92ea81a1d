package discovery

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Peers is the whole table, by host, node and address. The caller owns the slice; what is in it is never changed
// and must not be.
func (t *Table) Peers() []Peer {
	names := t.names()
	peers := make([]Peer, 0, len(t.nodes)+len(t.static))
	for id, e := range t.nodes {
		p := e.peer
		p.Host = names[id]
		peers = append(peers, p)
	}
	slices.SortFunc(peers, comparePeers)
	peers = t.withListed(peers, names)
	for _, text := range slices.Sorted(maps.Keys(t.static)) {
		s := t.static[text]
		if i := slices.IndexFunc(peers, func(p Peer) bool { return sameNode(s, p) }); i >= 0 {
			peers[i] = fold(peers[i], s)
			continue
		}
		peers = append(peers, s)
	}
	slices.SortFunc(peers, comparePeers)
	return peers
}

// SelfHost is the name other nodes know this one by: its host name, or NAME-ab12 when a node with a lower id has
// the same.
func (t *Table) SelfHost() string {
	if t.self.Node == "" {
		return t.self.Host
	}
	return t.names()[t.self.Node]
}

// names gives every node, and self, one name in its network. The lowest node id of those that announce a name
// keeps it, the others add as many digits of their id as make it unique, four as a rule. A stranger's network
// renames nobody.
func (t *Table) names() map[string]string {
	all := make([]Peer, 0, len(t.nodes)+1)
	for _, e := range t.nodes {
		all = append(all, e.peer)
	}
	t.eachListed(func(p Peer) {
		if p.Node != "" && t.nodes[p.Node] == nil {
			all = append(all, p)
		}
	})
	if t.self.Node != "" {
		all = append(all, t.self)
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	type key struct{ network, host string }
	taken := make(map[key]bool, len(all))
	names := make(map[string]string, len(all))
	var second []Peer
	for _, p := range all {
		k := key{p.Network, p.Host}
		if taken[k] {
			second = append(second, p)
			continue
		}
		taken[k] = true
		names[p.Node] = p.Host
	}
	for _, p := range second {
		for digits := 4; digits <= len(p.Node); digits += 4 {
			name := p.Host[:min(len(p.Host), maxName-1-digits)] + "-" + p.Node[:digits]
			names[p.Node] = name
			if k := (key{p.Network, name}); !taken[k] {
				taken[k] = true
				break
			}
		}
	}
	return names
}

// sameNode says whether a static peer and a node heard by mDNS are one: the same address, or the same machine by
// name and address, whose daemon now has another port.
func sameNode(static, heard Peer) bool {
	for _, a := range static.Addrs {
		if slices.Contains(heard.Addrs, a) {
			return true
		}
		onMachine := func(b netip.AddrPort) bool { return a.Addr() == b.Addr() }
		if firstLabel(static.Host) == firstLabel(heard.Host) && slices.ContainsFunc(heard.Addrs, onMachine) {
			return true
		}
	}
	return false
}

func firstLabel(host string) string {
	first, _, _ := strings.Cut(strings.ToLower(host), ".")
	return first
}

// fold joins a static peer to the node that was heard: what was heard is newer, what was written stays for when
// mDNS falls silent.
func fold(heard, static Peer) Peer {
	heard.Source, heard.Transport = SourceStatic, cmp.Or(heard.Transport, static.Transport)
	heard.Addrs = slices.Clone(heard.Addrs)
	for _, a := range static.Addrs {
		if !slices.Contains(heard.Addrs, a) {
			heard.Addrs = append(heard.Addrs, a)
		}
	}
	return heard
}

func comparePeers(a, b Peer) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Node, b.Node),
		slices.CompareFunc(a.Addrs, b.Addrs, netip.AddrPort.Compare))
}
