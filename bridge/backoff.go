package bridge

import (
	"math/rand/v2"
	"time"

	"achbridge/bridge/trust"
)

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// A peer that was there is dialled more often at first: how long it takes to
	// notice that a network is back is to be little against how long it was gone.
	returnBackoff = 500 * time.Millisecond // until it is gone for a hundred times as long
)

// backoff is how long to wait before p is dialled again; silent is the link to
// it, if there is one.
func (n *Node) backoff(p *peer, silent *link) time.Duration {
	most := lastBackoff
	switch now := n.now(); {
	case silent != nil:
		most = returnBackoff
	case p.linked:
		most = min(max(returnBackoff, (now-p.ended)/100), lastBackoff)
	}
	return backoff(p.failures, most)
}

// backoff grows from 0.1 s to most, with a random third, so that hosts which
// lost the same switch do not all come back in the same millisecond.
func backoff(failures int, most time.Duration) time.Duration {
	if failures == 0 {
		return 0
	}
	d := min(firstBackoff<<min(failures-1, 10), most)
	return d - time.Duration(rand.Int64N(int64(d)/3))
}

// unlinked lets the back-off towards a peer grow unless its link was a good one:
// a peer that never gets as far as that is not to be dialled at the pace of round
// trips.
func (n *Node) unlinked(l *link, cause error) {
	good := l.greeted && n.now() >= l.up+settled
	for _, p := range n.peers {
		switch {
		case p.node() != l.peer.String():
		case !good:
			p.failures++
			p.linked, p.ended = false, n.now()
			p.err = cause
		case p.proved || p.Static || p.lists(l.s.RemoteAddr()):
			p.failures, p.linked, p.ended = 0, true, n.now()
		}
	}
}

// leaving has a node that ended its link dialled a moment later: whoever meets
// it while its last links are closing waits in vain for the rest of a handshake.
func (n *Node) leaving(id trust.NodeID) {
	for _, p := range n.peers {
		if p.node() == id.String() {
			p.failures, p.linked, p.left = max(p.failures, 1), false, true
		}
	}
}
