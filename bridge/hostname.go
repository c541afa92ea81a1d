package bridge

import (
	"errors"

	"achbridge/bridge/peers"
	"achbridge/bridge/transport"
)

// hostName is the name of a new session's peer on this host: the name in its certificate,
// also when it is listed or announced under another name. Where certificates do not bind
// names, two linked hosts (this one counts too) may have the same name. Then the node with
// the higher id gets a part of its id after the name. But a silent link leaves its name to
// the newcomer.
func (n *Node) hostName(s *transport.Session) string {
	id, name := s.Peer().Node, s.Peer().Host
	distinct := func() string {
		taken := map[string]bool{n.cfg.Host: true}
		for _, other := range n.links {
			taken[other.host] = taken[other.host] || other.peer != id
		}
		return peers.DistinctName(name, id.String(), taken)
	}
	if n.cfg.Endpoint.NamesBind() {
		return name
	}
	for _, other := range n.links {
		if other.host != name || other.peer == id {
			continue
		}
		if other.isSilent() {
			n.endLinks(other, errors.New("its host is node "+id.String()+" now"))
			continue
		}
		n.log.Warn("two hosts have the same name; start one with another --name", "peer", name, "node", id.String(), "other", other.peer.String())
		if other.peer.Less(id) {
			return distinct()
		}
		n.endLinks(other, errors.New("it comes back under a name of its own"))
	}
	if name == n.cfg.Host {
		n.log.Warn("a linked host has the name of this one; start one of them with another --name", "peer", name, "node", id.String())
		if n.cfg.Node.Less(id) {
			return distinct()
		}
	}
	return name
}

// endLinks ends a link and its spares, which have the same name.
func (n *Node) endLinks(l *link, cause error) {
	for _, spare := range n.sparesOf(l.peer) {
		n.dropSpare(spare, cause)
	}
	n.linkDown(l, cause)
}
