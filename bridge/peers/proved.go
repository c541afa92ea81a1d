package peers

import (
	"cmp"
	"slices"
	"time"

	"achbridge/bridge/transport"
)

// The name, the id and the address that a node has proved on a link are kept as a peer of its own. Announcements and lists do not change it. So a wanted node is dialled at that
// address, whatever others announce, for at most an hour after its link, or until another node
// proves itself there. A node that said goodbye is dialled again as soon as it is announced or
// listed.

const (
	// provedFor is how long after its link a node is remembered.
	provedFor = time.Hour
	// maxProved bounds how many nodes are remembered.
	maxProved = 2 * MaxLinks
	// headStart is how much earlier a node is dialled at its proved address than at other
	// addresses.
	headStart = 150 * time.Millisecond
)

// proof has the facts that are known only of a node that has proved itself.
type proof struct {
	name        string        // the name of its link
	nextTrialAt time.Duration // the earliest time of the next trial (trial.go)
	trials      int           // selects the address of the next one
}

// prove remembers which node is at the other end of a link, and its address. It forgets other
// nodes at that address.
func (t *Table) prove(now time.Duration, l *Link, v View) {
	t.vacate(l.End)
	p := t.proved[l.Node]
	if p == nil {
		t.roomForProof(v)
		p = &peer{proof: &proof{}, endedAt: now}
		t.proved[l.Node] = p
	}
	p.Peer = Peer{Host: l.Host, Node: l.Node, Addrs: []transport.Addrs{t.placeOf(l.End)}}
	p.proof.name, p.err = l.Name, nil
	p.forgetLink(left)
}

// drop forgets what a node has proved.
func (t *Table) drop(p *peer) {
	p.again()
	delete(t.proved, p.Node)
}

// vacate forgets that other nodes were at the address of a session's peer.
func (t *Table) vacate(s End) {
	for id, p := range t.proved {
		if id != s.Node && p.lists(s.At) {
			t.drop(p)
		}
	}
}

// placeOf returns where the peer of a session listens: at the session's remote address, and, for
// the other transport, at a port on the same machine at which the peer is announced.
func (t *Table) placeOf(s End) transport.Addrs {
	for _, p := range t.all() {
		if p.node() != s.Node {
			continue
		}
		for _, a := range p.Addrs {
			if a.Overlaps(s.At) && (a.QUIC == nil || a.SCTP == nil || a.IsOneMachine()) {
				return a
			}
		}
	}
	return s.At
}

// roomForProof forgets the node whose link ended first if there are too many.
func (t *Table) roomForProof(v View) {
	var oldest *peer
	for id, p := range t.proved {
		if v.Linked[id] == nil && (oldest == nil || p.endedAt < oldest.endedAt) {
			oldest = p
		}
	}
	if len(t.proved) >= maxProved && oldest != nil {
		t.drop(oldest)
	}
}

// forgetOld forgets the nodes that have not been linked for too long.
func (t *Table) forgetOld(now time.Duration, v View) {
	for id, p := range t.proved {
		if now-p.endedAt >= provedFor && v.Linked[id] == nil {
			t.drop(p)
		}
	}
}

// mayBeUp reports whether a proved node may be up: it is linked, or it has not said goodbye,
// or it is listed or announced.
func (t *Table) mayBeUp(p *peer, v View) bool {
	return p.lastLink != left || v.Linked[p.Node] != nil || len(t.entriesOf(p)) > 0
}

// entriesOf returns the listed or announced peers that have the id or the address of a proved node.
func (t *Table) entriesOf(proved *peer) (list []*peer) {
	for _, p := range t.entries {
		if p.node() == proved.Node || p.node() == "" && slices.ContainsFunc(proved.Addrs, p.lists) {
			list = append(list, p)
		}
	}
	return list
}

// Names returns the names of the nodes that are linked, or have been in the last hour, by
// node id.
func (t *Table) Names(now time.Duration, v View) map[string]string {
	t.forgetOld(now, v)
	names := make(map[string]string, len(t.proved))
	for id, p := range t.proved {
		names[id] = p.proof.name
	}
	return names
}

// nameOf returns the name of p: that of its link, or else the listed or announced one.
func (t *Table) nameOf(p *peer) string {
	if q := t.proved[p.node()]; q != nil {
		return q.proof.name
	}
	return cmp.Or(p.met, p.Host)
}
