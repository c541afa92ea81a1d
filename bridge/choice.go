package bridge

import (
	"fmt"

	"achbridge/bridge/transport"
)

// By which transport two nodes are linked is the operator's choice, for each peer
// (Peer.Over, or else that of the first wish for its host that has one: a link carries
// all channels of a peer), or transport.Endpoint.Dial's: QUIC, and SCTP where QUIC is
// late.
// A link keeps the transport that it began with: falling silent, or a wish for the
// other one, has the peer dialled anew, and the new link takes the place of the old.

// The transports, as transport.Session.Transport names them.
const (
	overQUIC = "quic"
	overSCTP = "sctp"
)

// over is the only transport by which to be linked with p, "" for any. host is its
// name as far as it is known.
func (n *Node) over(p Peer, host string) string {
	if p.Over != "" || host == "" {
		return p.Over
	}
	for _, w := range n.wishes() {
		if w.Over != "" && match(w.Host, host) {
			return w.Over
		}
	}
	for _, w := range n.cfg.Pushes {
		if w.Over != "" && w.Host == host {
			return w.Over
		}
	}
	return ""
}

// takes reports whether a session with p may be its link.
func (n *Node) takes(p Peer, s *transport.Session) bool {
	over := n.over(p, s.Peer().Host)
	return over == "" || over == s.Transport()
}

// ParseTransport reads quic or sctp, which a link runs over then, or auto: any.
func ParseTransport(s string) (over string, err error) {
	switch s {
	case overQUIC, overSCTP:
		return s, nil
	case "auto":
		return "", nil
	}
	return "", fmt.Errorf("transport %q: want quic, sctp or auto", s)
}

// allows reports whether a session may be the link to its peer, as far as it is
// known who that is.
func (n *Node) allows(s *transport.Session) bool {
	for _, p := range n.peers {
		if !n.takes(p.Peer, s) && p.isAt(s) {
			return false
		}
	}
	return true
}

// dialAddrs are the addresses of p at which it may be dialled, less those for
// transports that this node is not to use, or has not.
func (n *Node) dialAddrs(p *peer) []transport.Addrs {
	over := n.over(p.Peer, p.name())
	ours := n.cfg.Endpoint.LocalAddrs()
	var list []transport.Addrs
	for _, a := range p.Addrs {
		if ours.QUIC == nil || over == overSCTP {
			a.QUIC = nil
		}
		if ours.SCTP == nil || over == overQUIC {
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
	theirs := transports(p.Addrs)
	if p.Over != "" {
		return fmt.Errorf("it is to be linked over %s, and listens on %s only: start it with --transport=auto, or take transport=%s off --peer",
			p.Over, theirs, p.Over)
	}
	if over := n.over(p.Peer, p.name()); over != "" {
		return fmt.Errorf("it is to be linked over %s, and listens on %s only: start it with --transport=auto, or take transport: %s off the rules of mirror and push that name it",
			over, theirs, over)
	}
	return fmt.Errorf("it listens on %s only, this node on %s: start one of them with --transport=auto",
		theirs, transports([]transport.Addrs{n.cfg.Endpoint.LocalAddrs()}))
}

// transports names those that addrs are for.
func transports(addrs []transport.Addrs) string {
	for _, a := range addrs {
		switch {
		case a.QUIC != nil && a.SCTP != nil:
			return overQUIC + " and " + overSCTP
		case a.SCTP != nil:
			return overSCTP
		}
	}
	return overQUIC
}
