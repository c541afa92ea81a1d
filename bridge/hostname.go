package bridge

import (
	"errors"

	"achbridge/bridge/transport"
)

// hostName is how the operator knows the peer: the name that it has proved, where
// certificates bind names; else discovery's name for this node if there is one, else
// its own. Of two hosts of one name the node with the
// higher id gets a part of its id behind the name; but a link on which nothing is
// heard any more leaves its name to the newcomer.
func (n *Node) hostName(s *transport.Session) string {
	if n.cfg.Endpoint.NamesBind() {
		return s.Peer().Host
	}
	id := s.Peer().Node
	name := s.Peer().Host
	if p := n.peers[id.String()]; p != nil && p.Host != "" {
		name = p.Host // a link that came up before discovery knew of both hosts may have the same
	}
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
		return n.ownName(name, id)
	}
	return name
}

// ownName is name with as much of the node's id behind it as tells it from all
// others that are linked: ids can be chosen, too.
func (n *Node) ownName(name string, id transport.NodeID) string {
	taken := map[string]bool{}
	for _, other := range n.links {
		taken[other.host] = taken[other.host] || other.peer != id
	}
	digits := 4
	for taken[name+"-"+id.String()[:digits]] && digits < len(id.String()) {
		digits += 4
	}
	return name + "-" + id.String()[:digits]
}

// maxPins bounds how many names are remembered.
const maxPins = 4096

// pin remembers which node has the name of l's host, and reports a change: a
// host that was set up anew, or somebody who calls himself the same. With one key for
// all, nothing tells the two apart; with certificates of its own there is one.
func (n *Node) pin(l *link) {
	if n.cfg.Endpoint.NamesBind() {
		return
	}
	before, known := n.pins[l.host]
	switch {
	case known && before != l.peer:
		l.warn("host name is used by another node than before", Event{Kind: HostChanged, Text: "its name is used by another node than before"}, "node", l.peer.String(), "before", before.String())
	case !known && len(n.pins) >= maxPins:
		return
	}
	n.pins[l.host] = l.peer
}
