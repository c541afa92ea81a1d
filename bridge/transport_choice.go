package bridge

import (
	"cmp"
	"fmt"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

// The operator may choose the transport of a link for each peer: by Peer.Over, or else by the
// first wish for its host that has a transport. Otherwise transport.Endpoint.Dial chooses:
// QUIC, or SCTP where QUIC does not answer in time. A link carries all channels of a peer and
// keeps its transport. When the link falls silent, or a wish asks for the other transport, the
// peer is dialled again, and the new link replaces the old one.

// over is the only transport that a link with p may use. host is p's name as far as it is
// known. An announcement at the address of a listed peer may be forged, so its choice applies
// only to dials to that announced peer.
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

// dialAddrs are the addresses of p without those of transports that this node must not use or
// does not have.
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

// noTransport says why p cannot be dialled although it has addresses.
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

// whyOver says why a link runs over its transport, as far as this node knows.
func (n *Node) whyOver(l *link) string {
	chosen := l.s.Transport()
	if l.overHub() {
		return "there is no direct link"
	}
	for _, p := range n.peers {
		if n.linkTo(p) == l && n.over(p, l.host) == chosen {
			return "this host's configuration asks for it"
		}
	}
	ours := n.cfg.Endpoint.LocalAddrs()
	switch {
	case ours.QUIC == nil || ours.SCTP == nil:
		return "this host uses no other"
	case !l.s.Dialled():
		return l.host + " dialled, and chose it"
	case chosen == via.SCTP:
		return l.host + " did not answer over " + via.QUIC.String() + " in time, or does not listen on it"
	}
	return "it is tried first, and " + l.host + " answered"
}
