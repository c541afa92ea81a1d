package bridge

import (
	"fmt"

	"achbridge/bridge/transport"
)

// By which transport two nodes are linked is the operator's choice, for each peer
// (Peer.Over), or else transport.Endpoint.Dial's: QUIC, and SCTP where QUIC is late.
// A link keeps the transport that it began with: falling silent, or a wish for the
// other one, has the peer dialled anew, and the new link takes the place of the old.

// The transports, as transport.Session.Transport names them.
const (
	overQUIC = "quic"
	overSCTP = "sctp"
)

// takes reports whether a session with p may be its link.
func (p Peer) takes(s *transport.Session) bool { return p.Over == "" || p.Over == s.Transport() }

// allows reports whether a session may be the link to its peer, as far as it is
// known who that is.
func (n *Node) allows(s *transport.Session) bool {
	for _, p := range n.peers {
		if !p.takes(s) && p.isAt(s) {
			return false
		}
	}
	return true
}

// dialAddrs are the addresses of p at which it may be dialled, less those for
// transports that this node is not to use, or has not.
func (n *Node) dialAddrs(p Peer) []transport.Addrs {
	ours := n.cfg.Endpoint.LocalAddrs()
	var list []transport.Addrs
	for _, a := range p.Addrs {
		if ours.QUIC == nil || p.Over == overSCTP {
			a.QUIC = nil
		}
		if ours.SCTP == nil || p.Over == overQUIC {
			a.SCTP = nil
		}
		if a.QUIC != nil || a.SCTP != nil {
			list = append(list, a)
		}
	}
	return list
}

// noTransport says why p, which has addresses, cannot be dialled at any.
func (n *Node) noTransport(p Peer) error {
	theirs := transports(p.Addrs)
	if p.Over != "" {
		return fmt.Errorf("it is to be linked over %s, and listens on %s only: start it with --transport=auto, or take transport=%s off --peer",
			p.Over, theirs, p.Over)
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
