package discovery

import (
	"maps"
	"slices"
)

// Listed learns what a domain's zone says: it replaces what the domain said before. The peers' sources and lives
// are set here.
func (t *Table) Listed(domain string, peers []Peer) (changed bool) {
	peers = slices.Clone(peers)
	for i := range peers {
		peers[i].Source, peers[i].Life = SourceDNS, 0
	}
	if slices.EqualFunc(t.listed[domain], peers, samePeer) {
		return false
	}
	t.listed[domain] = peers
	return true
}

// eachListed calls f for the peers of all domains, in an order that depends on nothing else.
func (t *Table) eachListed(f func(Peer)) {
	for _, domain := range slices.Sorted(maps.Keys(t.listed)) {
		for _, p := range t.listed[domain] {
			if p.Node == "" || p.Node != t.self.Node {
				f(p)
			}
		}
	}
}

// withListed adds to the peers that were heard what the domains list. A node that was heard only gets the
// addresses that its zone knows beside.
func (t *Table) withListed(peers []Peer, names map[string]string) []Peer {
	t.eachListed(func(l Peer) {
		i := slices.IndexFunc(peers, func(p Peer) bool { return sameListed(l, p) })
		if i < 0 {
			if name, ok := names[l.Node]; ok {
				l.Host = name
			}
			peers = append(peers, l)
			return
		}
		addrs := slices.Clone(peers[i].Addrs)
		for _, a := range l.Addrs {
			if !slices.Contains(addrs, a) {
				addrs = append(addrs, a)
			}
		}
		peers[i].Addrs = addrs
	})
	return peers
}

// sameListed says whether a peer of a zone and another are one: by node id where both have one.
func sameListed(listed, p Peer) bool {
	if listed.Node != "" && p.Node != "" {
		return listed.Node == p.Node
	}
	return sameNode(listed, p)
}
