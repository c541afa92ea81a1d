package bridge

import (
	"cmp"
	"net"
	"slices"
	"time"

	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

// What a node has proved on a link is kept as a peer of its own: its name, its id and its
// address. Announcements and lists do not change it. So a wanted node is dialled at that
// address, whatever others announce, for at most an hour after its link, or until another node
// proves itself there. A node that said goodbye is dialled again as soon as it is announced or
// listed.

const (
	// provedFor is how long after its link a node is remembered.
	provedFor = time.Hour
	// maxProved bounds how many nodes are remembered.
	maxProved = 2 * maxLinks
	// headStart is how much earlier a node is dialled at its proved address than at other
	// addresses.
	headStart = 150 * time.Millisecond
)

func provedKey(id string) string { return "proved " + id }

// proof is the proved peer with that node id, nil for none.
func (n *Node) proof(id string) *peer {
	if id == "" {
		return nil
	}
	return n.peers[provedKey(id)]
}

// prove remembers which node is at the other end of a link, and its address. It forgets other
// nodes at that address.
func (n *Node) prove(l *link) {
	id := l.peer.String()
	n.vacate(l.s)
	p := n.proof(id)
	if p == nil {
		n.roomForProof()
		p = &peer{proved: true, ended: n.now()}
		n.peers[provedKey(id)] = p
	}
	p.Peer = Peer{Host: l.s.Peer().Host, Node: id, Addrs: []transport.Addrs{n.placeOf(l.s)}}
	p.called, p.left, p.err = l.host, false, nil
}

// vacate forgets that other nodes were at the address of s's peer.
func (n *Node) vacate(s *transport.Session) {
	for key, p := range n.peers {
		if p.proved && p.Node != s.Peer().Node.String() && p.lists(s.RemoteAddr()) {
			p.again()
			delete(n.peers, key)
		}
	}
}

// placeOf is where the peer of a session listens: at the session's remote address, and, for
// the other transport, at the port on the same machine that the peer has told.
func (n *Node) placeOf(s *transport.Session) transport.Addrs {
	at := s.RemoteAddr()
	for _, p := range n.peers {
		if p.node() != s.Peer().Node.String() {
			continue
		}
		for _, a := range p.Addrs {
			if a.Include(at) && (a.QUIC == nil || a.SCTP == nil || sameMachine(a.QUIC, a.SCTP)) {
				return a
			}
		}
	}
	if s.Transport() == via.SCTP {
		return transport.Addrs{SCTP: at}
	}
	return transport.Addrs{QUIC: at}
}

func sameMachine(a, b net.Addr) bool {
	x, ok := a.(*net.UDPAddr)
	y, both := b.(*net.UDPAddr)
	return ok && both && x.IP.Equal(y.IP) && x.Zone == y.Zone
}

// roomForProof forgets the node whose link ended first if there are too many.
func (n *Node) roomForProof() {
	count, oldest := 0, ""
	for key, p := range n.peers {
		if !p.proved {
			continue
		}
		if count++; n.linkTo(p) == nil && (oldest == "" || p.ended < n.peers[oldest].ended) {
			oldest = key
		}
	}
	if count >= maxProved && oldest != "" {
		n.peers[oldest].again()
		delete(n.peers, oldest)
	}
}

// forgetProved forgets the nodes that have not been linked for too long.
func (n *Node) forgetProved() {
	for key, p := range n.peers {
		if p.proved && n.now()-p.ended >= provedFor && n.linkTo(p) == nil {
			p.again()
			delete(n.peers, key)
		}
	}
}

// awaited reports whether a proved node may be up: it is linked, or it has not said goodbye,
// or it is listed or announced.
func (n *Node) awaited(p *peer) bool {
	return !p.left || n.linkTo(p) != nil || len(n.toldOf(p)) > 0
}

// toldOf are the listed or announced peers that have the id or the address of a proved node.
func (n *Node) toldOf(proved *peer) (list []*peer) {
	for _, p := range n.peers {
		if !p.proved && (p.node() == proved.Node || p.node() == "" && slices.ContainsFunc(proved.Addrs, p.shares)) {
			list = append(list, p)
		}
	}
	return list
}

// Proved are the names of the nodes that are linked, or have been in the last hour, by
// node id.
func (n *Node) Proved() map[string]string {
	names := map[string]string{}
	n.call(func() {
		for _, p := range n.peers {
			if p.proved {
				names[p.Node] = p.called
			}
		}
	})
	return names
}

// nameOf is the name of p: that of its link, or else the listed or announced one.
func (n *Node) nameOf(p *peer) string {
	if q := n.proof(p.node()); q != nil {
		return q.called
	}
	return cmp.Or(p.met, p.Host)
}

// lists reports whether addr is one of p's.
func (p *peer) lists(addr net.Addr) bool {
	return slices.ContainsFunc(p.Addrs, func(a transport.Addrs) bool { return a.Include(addr) })
}

// shares reports whether a, or a part of it, is one of p's.
func (p *peer) shares(a transport.Addrs) bool {
	return a.QUIC != nil && p.lists(a.QUIC) || a.SCTP != nil && p.lists(a.SCTP)
}
