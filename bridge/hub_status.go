package bridge

import (
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"errors"
)

func (l *link) way() status.Way { return status.WayOver(l.s.Transport()) }

// showWay adds to a mirror's status by which way its frames come.
func (m *binding) showWay(s *status.Mirror) {
	if m.link == nil {
		return
	}
	s.Way = m.link.way()
	s.AtHub = m.link.consumer(m.subID).Replaced()
}

// toldBesides reports whether another peer tells of the host of p, which is at the hub: a peer with its
// addresses, or its link.
func (n *Node) toldBesides(p *peer) bool {
	if l := n.provedLink(p.Host); l != nil && !l.overHub() {
		return true
	}
	for _, q := range n.peers {
		if !q.Hub && n.nameOf(q) == p.Host && n.provedLink(p.Host) == nil && p.stop == nil && p.err == nil {
			return true
		}
	}
	return false
}

// hubPeerStatus tells of a host at the hub.
func (n *Node) hubPeerStatus(p *peer) status.Peer {
	s := status.Peer{Host: p.Host, Addrs: []string{status.AtHub}, State: status.PeerKnown}
	switch l := n.provedLink(p.Host); {
	case l != nil:
		s.State, s.Node, s.Network = status.PeerLinked, l.peer.String(), l.s.Network()
		return s
	case p.stop != nil:
		s.State = status.PeerDialling
	}
	if p.err != nil {
		setError(&s, p.err)
	}
	return s
}

// setError sets why there is no link to a peer.
func setError(s *status.Peer, err error) {
	s.Error, s.Cause, s.OwnCertificate = err.Error(), causeOf(err), errors.Is(err, transport.ErrOurCertificate)
}
