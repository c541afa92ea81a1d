package peers

import (
	"errors"
	"slices"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
)

// wanted reports whether the node has a reason to dial p: it is listed, or a wish is for a
// host of the name that p has proved or announces.
func (t *Table) wanted(p *peer, v View) bool {
	if p.Static || p.Asked || v.wants(p.Peer) {
		return true
	}
	if p.proof == nil {
		q := t.proved[p.node()]
		return q != nil && v.wants(q.Peer)
	}
	return t.mayBeUp(p, v) && slices.ContainsFunc(t.toldOf(p), func(q *peer) bool { return q.Static || q.Asked })
}

// wants reports whether a wish is for a host of p's name, or of that name with a part of
// the node's id after it, which a host gets when two have the same name.
func (v View) wants(p Peer) bool {
	return slices.ContainsFunc(v.Wanted, func(pattern string) bool {
		return rule.Match(pattern, p.Host) || isDistinctName(pattern, p.Host) ||
			p.Node != "" && rule.Match(pattern, longName(p.Host, p.Node[:min(len(p.Node), nameDigits)]))
	})
}

// isDialled reports whether p need not be dialled now, since another peer that is, or may be,
// the same node is being dialled, and only at addresses of p. So a node that is both listed
// and announced is dialled once. If that peer is dialled at other addresses too, p does not
// wait: otherwise a forged announcement with many addresses could delay it.
func (t *Table) isDialled(p *peer) bool {
	if p.proof != nil {
		return false
	}
	for _, other := range t.told {
		if other.dial == nil || other.Hub || p.isApartFrom(other) || p.node() != "" && other.node() != "" && p.node() != other.node() {
			continue
		}
		if !slices.ContainsFunc(other.Addrs, func(a transport.Addrs) bool { return !p.lists(a) }) {
			return true
		}
	}
	return false
}

// ErrCopied says that another machine has a peer's node id too.
var ErrCopied = errors.New("another machine with its node id is linked")

// dialAddrs returns the addresses at which to dial p. It leaves out those of transports that may not be used, the address where
// p's node has proved itself, which is dialled separately, addresses where a link shows another
// node, and the address of a copy of its node. err tells why no address is left, nil if p is dialled as a proved peer.
func (t *Table) dialAddrs(p *peer, v View, proved []provedAt) (list []transport.Addrs, err error) {
	usable := t.usable(p, v)
	if len(usable) == 0 {
		return nil, t.noTransport(p, v)
	}
	for _, a := range usable {
		if l := v.linkAt(a); l != nil && p.node() != "" && p.node() != l.Node {
			err = AnswersThere(l.End)
			continue
		}
		if v.isCopyAt(p.node(), a) {
			err = ErrCopied
			continue
		}
		if p.proof == nil && isDialledAsProved(p, a, proved) {
			continue
		}
		list = append(list, a)
	}
	return list, err
}

// isCopyAt reports whether an address must not be dialled for the node with that id, since a copy of it is there.
func (v View) isCopyAt(node string, a transport.Addrs) bool {
	l := v.Linked[node]
	return l != nil && a.Overlaps(l.CopyAt)
}

// provedAt is a node that is dialled at the addresses where it has proved itself.
type provedAt struct {
	node  string
	addrs []transport.Addrs
}

// awaited returns the proved nodes that are dialled. They are collected once for all
// peers: anybody can announce thousands of hosts, and each of those is compared only with these few.
func (t *Table) awaited(v View) (list []provedAt) {
	for id, p := range t.proved {
		if !t.mayBeUp(p, v) || !t.wanted(p, v) {
			continue
		}
		usable := t.usable(p, v)
		restricted := func(a transport.Addrs) bool { return !slices.ContainsFunc(usable, a.Equal) }
		list = append(list, provedAt{id, slices.DeleteFunc(slices.Clone(p.Addrs), restricted)})
	}
	return list
}

// isDialledAsProved reports whether a is the address where p's node has proved itself.
func isDialledAsProved(p *peer, a transport.Addrs, proved []provedAt) bool {
	return slices.ContainsFunc(proved, func(q provedAt) bool {
		return (p.node() == "" || p.node() == q.node) && slices.ContainsFunc(q.addrs, a.Equal)
	})
}
