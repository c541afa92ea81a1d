package bridge

import "achbridge/wire"

// What the network's authority has revoked spreads from node to node: each tells its
// peers of the list that it has until they are known to have it, and takes a newer one
// from whoever has it. So it is enough to give a list to one node.

// tellRevocations sends the list that counts here, unless the peer has it or a newer
// one.
func (n *Node) tellRevocations(l *link) {
	list := n.cfg.Endpoint.Revocations()
	if !l.greeted || list.Number() <= l.listed {
		return
	}
	l.listed = list.Number()
	l.send(wire.Revocations{List: list.Bytes()})
}

// revocations takes the peer's list. One that nobody of ours can have signed ends the
// link.
func (n *Node) revocations(l *link, m wire.Revocations) error {
	taken, err := n.cfg.Endpoint.Revoke(m.List)
	if err != nil {
		return unwelcome(err.Error())
	}
	if taken {
		l.listed = n.cfg.Endpoint.Revocations().Number()
	}
	return nil
}
