package bridge

import (
	"cmp"
	"fmt"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

// By which transport two nodes are linked is the operator's choice, for each peer
// (Peer.Over, or else that of the first wish for its host that has one: a link carries
// all channels of a peer), or transport.Endpoint.Dial's: QUIC, and SCTP where QUIC is
// late.
// A link keeps the transport that it began with: falling silent, or a wish for the
// other one, has the peer dialled anew, and the new link takes the place of the old.

// over is the only transport by which to be linked with p. host is its
// name as far as it is known. An announcement at the address of a listed peer may be
// forged, so what is wanted of that counts for dials to it alone.
func (n *Node) over(p *peer, host string) via.Kind {
	if p.Over != via.Any && p.Source == "" {
		return p.Over
	}
	if p.proved {
		for _, q := range n.toldOf(p) {
			if q.Over != via.Any && q.Source == "" {
				return q.Over
			}
		}
	}
	if host == "" {
		return via.Any
	}
	for _, w := range n.wishes() {
		if w.Over != via.Any && rule.Match(w.Host, host) {
			return w.Over
		}
	}
	for _, w := range n.cfg.Pushes {
		if w.Over != via.Any && w.Host == host {
			return w.Over
		}
	}
	return via.Any
}

// takes reports whether a session with p may be its link.
func (n *Node) takes(p *peer, s *transport.Session) bool {
	over := n.over(p, s.Peer().Host)
	return over == via.Any || over == s.Transport()
}

// allows reports whether a session may be the link to its peer, as far as it is
// known who that is.
func (n *Node) allows(s *transport.Session) bool {
	for _, p := range n.peers {
		if p.isListedAt(s) && !n.takes(p, s) {
			return false
		}
	}
	return true
}

// dialAddrs are the addresses of p at which it may be dialled, less those for
// transports that this node is not to use, or has not.
func (n *Node) dialAddrs(p *peer) []transport.Addrs {
	over := cmp.Or(n.over(p, n.nameOf(p)), p.Over)
	ours := n.cfg.Endpoint.LocalAddrs()
	var list []transport.Addrs
	for _, a := range p.Addrs {
		if ours.QUIC == nil || over == via.SCTP {
			a.QUIC = nil
		}
		if ours.SCTP == nil || over == via.QUIC {
			a.SCTP = nil
		}
		if a.QUIC != nil || a.SCTP != nil {
			list = append(list, a)
		}
	}
	return list
}

// noTransport says why p, which has addresses, cannot be dialled at any.
func (n *Node) noTransport(p *peer) error {
	theirs := transportsOf(p.Addrs)
	if p.Over != via.Any {
		return fmt.Errorf("it is to be linked over %s, and listens on %s only: start it with --transport=auto, or take transport=%s off --peer",
			p.Over, theirs, p.Over)
	}
	if over := n.over(p, n.nameOf(p)); over != via.Any {
		return fmt.Errorf("it is to be linked over %s, and listens on %s only: start it with --transport=auto, or take transport: %s off the rules of mirror and push that name it",
			over, theirs, over)
	}
	return fmt.Errorf("it listens on %s only, this node on %s: start one of them with --transport=auto",
		theirs, transportsOf([]transport.Addrs{n.cfg.Endpoint.LocalAddrs()}))
}

// transportsOf names those that addrs are for.
func transportsOf(addrs []transport.Addrs) string {
	for _, a := range addrs {
		switch {
		case a.QUIC != nil && a.SCTP != nil:
			return via.QUIC.String() + " and " + via.SCTP.String()
		case a.SCTP != nil:
			return via.SCTP.String()
		}
	}
	return via.QUIC.String()
}
