package bridge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
)

// wanted reports whether the node has a reason to dial p: somebody wishes for a host of
// the name that p has proved, or is said to have.
func (n *Node) wanted(p *peer) bool {
	if p.Static || p.Asked || n.wishedFor(p.Host, p.Node) {
		return true
	}
	if !p.proved {
		q := n.proof(p.node())
		return q != nil && n.wishedFor(q.Host, q.Node)
	}
	return n.awaited(p) && slices.ContainsFunc(n.toldOf(p), func(q *peer) bool { return q.Static || q.Asked })
}

// wishedFor reports whether somebody wishes for a host of that name, or for one that
// has a part of its node's id behind the name: it gets that when there are two.
func (n *Node) wishedFor(host, node string) bool {
	is := func(pattern string) bool {
		return rule.Match(pattern, host) || isTwin(pattern, host) || node != "" && rule.Match(pattern, longName(host, node[:min(len(node), nameDigits)]))
	}
	return slices.ContainsFunc(n.wishes(), func(w rule.Mirror) bool { return is(w.Host) }) ||
		slices.ContainsFunc(n.peeks, func(w *peek) bool { return is(w.Host) }) ||
		slices.ContainsFunc(n.pushes, func(w *push) bool { return is(w.Host) })
}

// dialling reports whether p need not be dialled now, because all that is being dialled
// of another that is, or may be, the same node is among p's addresses: one that is both
// listed and announced is dialled once. More than p's addresses do not count: whoever
// announces p with many others must not keep it waiting for them.
func (n *Node) dialling(p *peer) bool {
	if p.proved {
		return false
	}
	for _, other := range n.peers {
		if other.stop == nil || other.proved || p.apartFrom(other) || p.node() != "" && other.node() != "" && p.node() != other.node() {
			continue
		}
		if !slices.ContainsFunc(other.Addrs, func(a transport.Addrs) bool { return !p.shares(a) }) {
			return true
		}
	}
	return false
}

// leftOver are those of addrs that are for p to dial: not where its node has proved
// itself, which is dialled for itself, and not where a link shows that another node is.
// Of the latter it says who.
func (n *Node) leftOver(p *peer, addrs []transport.Addrs) (list []transport.Addrs, elsewhere error) {
	for _, a := range addrs {
		if l := n.linkAt(a); l != nil && p.node() != "" && p.node() != l.peer.String() {
			elsewhere = answersThere(l.s)
			continue
		}
		if !p.proved && n.dialledAsProved(p, a) {
			continue
		}
		list = append(list, a)
	}
	return list, elsewhere
}

// linkAt is a link on which something is heard that leads to an address, nil for none.
func (n *Node) linkAt(a transport.Addrs) *link {
	for _, l := range n.links {
		if !l.silent && a.Include(l.s.RemoteAddr()) {
			return l
		}
	}
	return nil
}

// dialledAsProved reports that an address of p is where its node, if p says which, has
// proved itself, and is dialled for that.
func (n *Node) dialledAsProved(p *peer, a transport.Addrs) bool {
	for _, q := range n.peers {
		if !q.proved || p.node() != "" && p.node() != q.Node || !slices.ContainsFunc(q.Addrs, a.Equal) {
			continue
		}
		if n.awaited(q) && n.wanted(q) && slices.ContainsFunc(n.dialAddrs(q), a.Equal) {
			return true
		}
	}
	return false
}

func answersThere(s *transport.Session) error {
	return fmt.Errorf("%s, node %s, answers there", s.Peer().Host, s.Peer().Node)
}

// needless reports that a session which came of dialling p is not wanted, since there is
// a link to that node which works: p's host, if s is with another node, is not there,
// else it was reached another way a moment ago. Without such a link the session is
// welcome, whoever it is with: p's host may have come back as that node.
func (n *Node) needless(p *peer, old *link, s *transport.Session) bool {
	id := s.Peer().Node
	l := n.links[id]
	if l == nil || l == old {
		return false
	}
	if _, silent := l.quiet(n.now()); silent {
		return false
	}
	return p.Node != "" && p.Node != id.String() || !p.moved && n.takes(p, l.s) && n.stays(l)
}

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// A peer that was there is dialled more often at first: how long it takes to
	// notice that a network is back is to be little against how long it was gone.
	returnBackoff = 500 * time.Millisecond // until it is gone for a hundred times as long
)

// backoff is how long to wait before p is dialled again; silent is the link to
// it, if there is one.
func (n *Node) backoff(p *peer, silent *link) time.Duration {
	most := lastBackoff
	switch now := n.now(); {
	case silent != nil:
		most = returnBackoff
	case p.linked:
		most = min(max(returnBackoff, (now-p.ended)/100), lastBackoff)
	}
	return backoff(p.failures, most)
}

// backoff grows from 0.1 s to most, with a random third, so that hosts which
// lost the same switch do not all come back in the same millisecond.
func backoff(failures int, most time.Duration) time.Duration {
	if failures == 0 {
		return 0
	}
	d := min(firstBackoff<<min(failures-1, 10), most)
	return d - time.Duration(rand.Int64N(int64(d)/3))
}

// unlinked lets the back-off towards a peer grow unless its link was a good one:
// a peer that never gets as far as that is not to be dialled at the pace of round
// trips.
func (n *Node) unlinked(l *link, cause error) {
	good := l.greeted && n.now() >= l.up+settled
	for _, p := range n.peers {
		switch {
		case p.node() != l.peer.String():
		case !good:
			p.failures++
			p.linked, p.ended = false, n.now()
			p.err = cause
		case p.proved || p.Static || p.lists(l.s.RemoteAddr()):
			p.failures, p.linked, p.ended = 0, true, n.now()
		}
	}
}

// leaving has a node that ended its link dialled a moment later: whoever meets
// it while its last links are closing waits in vain for the rest of a handshake.
func (n *Node) leaving(id trust.NodeID) {
	for _, p := range n.peers {
		if p.node() == id.String() {
			p.failures, p.linked, p.left = max(p.failures, 1), false, true
		}
	}
}
