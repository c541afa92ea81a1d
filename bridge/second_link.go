package bridge

import (
	"errors"

	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
)

// Two nodes may come by a second session: both have dialled at once, one was
// restarted, or one hears nothing on the link that they have and dials anew. Both
// ends must keep the same one, though each knows only its own view. So the end
// that has dialled decides, when its session is there, and says Hello on it if it
// means it. The other holds such a session as a spare, and the link that it has
// as long as it can; it closes neither as long as the dialler may still choose.

// linkUp takes a new session, as the link to its peer or as a spare.
func (n *Node) linkUp(s *transport.Session) {
	if !n.allows(s) {
		n.log.Info("session refused: its peer is to be linked over another transport", "peer", s.Peer().Host,
			"addr", s.RemoteAddr().String(), "transport", s.Transport())
		n.work.Go(func() { s.Close("not over " + s.Transport().String() + ": this node wants the other transport") })
		return
	}
	old := n.links[s.Peer().Node]
	if old != nil && old.s.Peer().Host != s.Peer().Host {
		n.endLinks(old, errors.New("its host is called "+s.Peer().Host+" now")) // a name holds as long as a daemon
		old = nil
	}
	if old == nil && n.crowded(s) {
		n.turnAway(s)
		return
	}
	if old == nil {
		l := n.newLink(s, n.hostName(s))
		l.serve()
		n.take(l)
		return
	}
	l := n.newLink(s, old.host)
	switch {
	case !s.Dialled():
		l.serve()
		if former := n.spares[l.peer]; former != nil {
			n.dropSpare(former, errors.New("a newer link takes its place"))
		}
		n.spares[l.peer] = l
	case n.replaces(l, old):
		l.serve()
		n.take(l)
	default:
		n.work.Go(func() { s.Close("there is a link already") })
	}
}

// dropSpare forgets a spare.
func (n *Node) dropSpare(l *link, cause error) {
	delete(n.spares, l.peer)
	l.cancel(cause)
}

// challenge lets a spare whose peer has said Hello take the place of the link, if
// it is the better one.
func (n *Node) challenge(l *link) {
	if n.spares[l.peer] == l && l.greeted && n.replaces(l, n.links[l.peer]) {
		n.take(l)
	}
}

// replaces reports whether l is to take the place of old. Of two links that are
// alive the one that the node with the lower id dialled stays; of two dialled by
// the same node the newer one.
func (n *Node) replaces(l, old *link) bool {
	if _, silent := old.quiet(n.now()); silent || !n.allows(old.s) {
		return true
	}
	if l.greeted && old.greeted && l.run != old.run {
		return true // the peer of old was restarted
	}
	first := n.dialler(l.s)
	return first == n.dialler(old.s) || first == lower(n.cfg.Node, l.peer)
}

// stays reports that no dial of ours can take the place of a link that works: the node
// with the lower id dialled it, or we did.
func (n *Node) stays(l *link) bool { return l.s.Dialled() || lower(n.cfg.Node, l.peer) == l.peer }

// dialler is the node that dialled a session of ours.
func (n *Node) dialler(s *transport.Session) trust.NodeID {
	if s.Dialled() {
		return n.cfg.Node
	}
	return s.Peer().Node
}

func lower(a, b trust.NodeID) trust.NodeID {
	if a.String() < b.String() {
		return a
	}
	return b
}
