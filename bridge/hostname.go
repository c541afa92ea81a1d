package bridge

import (
	"errors"

	"achbridge/bridge/transport"
)

// hostName is how the operator knows the peer: discovery's name for this node
// if there is one, else its own. Of two hosts of one name the node with the
// higher id gets a part of its id behind the name; but a link on which nothing is
// heard any more leaves its name to the newcomer.
func (n *Node) hostName(s *transport.Session) string {
	id := s.Peer().Node
	if p := n.peers[id.String()]; p != nil && p.Host != "" {
		return p.Host
	}
	name := s.Peer().Host
	for _, other := range n.links {
		if other.host != name || other.peer == id {
			continue
		}
		if _, silent := other.quiet(n.now()); silent {
			n.linkDown(other, errors.New("its host is node "+id.String()+" now"))
			return name
		}
		n.log.Warn("two hosts have the same name; start one with another --name", "peer", name, "node", id.String(), "other", other.peer.String())
		if lower(id, other.peer) == id {
			n.linkDown(other, errors.New("it comes back under a name of its own"))
			return name
		}
		return name + "-" + id.String()[:4]
	}
	return name
}
