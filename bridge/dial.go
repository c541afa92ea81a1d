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

// wanted reports whether the node has a reason to dial p: it is listed, or a wish is for a
// host of the name that p has proved or announces.
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

// wishedFor reports whether a wish is for a host of that name, or of that name with a part of
// the node's id after it, which a host gets when two have the same name.
func (n *Node) wishedFor(host, node string) bool {
	is := func(pattern string) bool {
		return rule.Match(pattern, host) || isTwin(pattern, host) || node != "" && rule.Match(pattern, longName(host, node[:min(len(node), nameDigits)]))
	}
	return slices.ContainsFunc(n.wishes(), func(w rule.Mirror) bool { return is(w.Host) }) ||
		slices.ContainsFunc(n.peeks, func(w *peek) bool { return is(w.Host) }) ||
		n.pushes.any(func(w *push) bool { return is(w.Host) })
}

// dialling reports whether p need not be dialled now, since another peer that is, or may be,
// the same node is being dialled, and only at addresses of p. So a node that is both listed
// and announced is dialled once. If that peer is dialled at other addresses too, p does not
// wait: otherwise a forged announcement with many addresses could delay it.
func (n *Node) dialling(p *peer) bool {
	if p.proved {
		return false
	}
	for _, other := range n.peers {
		if other.stop == nil || other.proved || other.Hub || p.apartFrom(other) || p.node() != "" && other.node() != "" && p.node() != other.node() {
			continue
		}
		if !slices.ContainsFunc(other.Addrs, func(a transport.Addrs) bool { return !p.shares(a) }) {
			return true
		}
	}
	return false
}

// leftOver returns the addresses at which to dial p. It leaves out the address where its node
// has proved itself, which is dialled separately, addresses where a link shows another
// node, and the address of a copy of its node. elsewhere is the reason for the last address of these two
// kinds that was left out. proved are the peers of provedPeers.
func (n *Node) leftOver(p *peer, addrs []transport.Addrs, proved []*peer) (list []transport.Addrs, elsewhere error) {
	for _, a := range addrs {
		if l := n.linkAt(a); l != nil && p.node() != "" && p.node() != l.peer.String() {
			elsewhere = answersThere(l.s)
			continue
		}
		if p.node() != "" && n.isCopyAt(p.node(), a) {
			elsewhere = errCopied
			continue
		}
		if !p.proved && n.dialledAsProved(p, a, proved) {
			continue
		}
		list = append(list, a)
	}
	return list, elsewhere
}

// linkAt is a link to an address whose peer is heard, nil for none.
func (n *Node) linkAt(a transport.Addrs) *link {
	for _, l := range n.links {
		if !l.silent && a.Include(l.s.RemoteAddr()) {
			return l
		}
	}
	return nil
}

// provedPeers are the peers that are dialled at the address where their node has proved itself. They are collected once for all
// peers: anybody can announce thousands of hosts, and each of those is compared only with these few.
func (n *Node) provedPeers() (list []*peer) {
	for _, p := range n.peers {
		if p.proved && n.awaited(p) && n.wanted(p) {
			list = append(list, p)
		}
	}
	return list
}

// dialledAsProved reports whether a is the address where p's node has proved itself, so that
// it is dialled there already.
func (n *Node) dialledAsProved(p *peer, a transport.Addrs, proved []*peer) bool {
	return slices.ContainsFunc(proved, func(q *peer) bool {
		isSame := (p.node() == "" || p.node() == q.Node) && slices.ContainsFunc(q.Addrs, a.Equal)
		return isSame && slices.ContainsFunc(n.dialAddrs(q), a.Equal)
	})
}

func answersThere(s *transport.Session) error {
	return fmt.Errorf("%s, node %s, answers there", s.Peer().Host, s.Peer().Node)
}

// needless reports whether to close s, a session from dialling p, since a working link to the
// same node exists. Without such a link s is kept, even if it is with another node than p:
// p's host may have come back as that node.
func (n *Node) needless(p *peer, old *link, s *transport.Session) bool {
	id := s.Peer().Node
	l := n.links[id]
	if l == nil || l == old || l.overHub() && !overHub(s) {
		return false
	}
	if n.isSilent(l) {
		return false
	}
	return p.Node != "" && p.Node != id.String() || !p.moved && n.takes(p, l.s) && n.stays(l)
}

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// A peer that was linked before is dialled more often at first, so that the time to notice
	// a network's return is short against the time that it was gone.
	returnBackoff = 500 * time.Millisecond // longest wait until the peer is gone for a hundred times as long
)

// backoff is how long to wait before p is dialled again. silent is the silent link to p, nil
// for none.
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

// backoff grows with failures from 0.1 s to most. A third of it is random, so that hosts which
// lost the same switch do not all dial in the same millisecond.
func backoff(failures int, most time.Duration) time.Duration {
	if failures == 0 {
		return 0
	}
	d := min(firstBackoff<<min(failures-1, 10), most)
	return d - time.Duration(rand.Int64N(int64(d)/3))
}

// unlinked handles the end of a link: the peer is dialled again, at once if the link had
// lasted (settled), otherwise after a longer back-off. So a peer whose links end at once is
// not dialled at the pace of round trips.
func (n *Node) unlinked(l *link, cause error) {
	if l.overHub() {
		n.hubLinkEnded(l)
		return
	}
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

// leaving delays the next dial to a node that said goodbye. While that node closes its last
// links, it begins handshakes that it does not complete.
func (n *Node) leaving(id trust.NodeID) {
	for _, p := range n.peers {
		if p.node() == id.String() {
			p.failures, p.linked, p.left = max(p.failures, 1), false, true
		}
	}
}
