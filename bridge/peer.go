package bridge

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"achbridge/bridge/transport"
)

// peer is another node that may be dialled. It belongs to the node's
// goroutine; its dialler only reads what it was started with.
type peer struct {
	Peer
	reached  string             // node id of who answered last
	stop     context.CancelFunc // ends the dialling that is going on; nil when none is
	moved    bool               // its link leads to where it is no longer listed
	failures int
	err      error
}

const (
	dialTimeout  = 1500 * time.Millisecond // for one address
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// SetPeers replaces the list of nodes that may be dialled. Links that run are
// not touched.
func (n *Node) SetPeers(list []Peer) {
	n.call(func() {
		seen := make(map[string]*peer, len(list))
		for _, p := range list {
			key := p.key()
			known := n.peers[key]
			if known == nil {
				known = &peer{}
			} else if !slices.EqualFunc(known.Addrs, p.Addrs, sameAddrs) {
				known.again() // it moved
				known.moved = known.moved || n.leftBehind(known.Peer, p)
			}
			known.Peer = p
			seen[key] = known
		}
		for key, p := range n.peers {
			if seen[key] == nil {
				p.again()
			}
		}
		n.peers = seen
		n.changed = true
	})
}

// leftBehind reports that the link to a peer leads to an address that was
// listed for it before and is not any more: there is no need to wait until the
// link falls silent.
func (n *Node) leftBehind(before, now Peer) bool {
	for id, l := range n.links {
		at := func(a transport.Addrs) bool { return a.Include(l.s.RemoteAddr()) }
		if id.String() == now.Node && slices.ContainsFunc(before.Addrs, at) && !slices.ContainsFunc(now.Addrs, at) {
			return true
		}
	}
	return false
}

// reached notes that a link leads to where a node is now.
func (n *Node) reached(id transport.NodeID) {
	for _, p := range n.peers {
		if p.node() == id.String() {
			p.moved = false
		}
	}
}

// again forgets what dialling has come to so far.
func (p *peer) again() {
	p.failures = 0
	if p.stop != nil {
		p.stop()
	}
}

// node is the id of the node that p is, as far as known.
func (p *peer) node() string { return cmp.Or(p.Node, p.reached) }

func (p Peer) key() string {
	if p.Node != "" {
		return p.Node
	}
	if len(p.Addrs) > 0 {
		return p.Addrs[0].String()
	}
	return p.Host
}

func sameAddrs(a, b transport.Addrs) bool {
	return sameAddr(a.QUIC, b.QUIC) && sameAddr(a.SCTP, b.SCTP)
}

func sameAddr(a, b net.Addr) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.String() == b.String()
}

// dialWanted dials every peer that somebody wants and no link serves; a silent
// link does not.
func (n *Node) dialWanted() {
	for _, p := range n.peers {
		old := n.linkTo(p)
		if p.moved {
			old = nil // whatever is heard on it
		}
		if p.stop != nil || len(p.Addrs) == 0 || old != nil && !old.silent || !n.wanted(p) || n.dialling(p) {
			continue
		}
		ctx, cancel := context.WithCancel(n.ctx)
		p.stop = cancel
		wait := backoff(p.failures)
		addrs := slices.Clone(p.Addrs)
		n.work.Go(func() {
			s, err := n.dial(ctx, addrs, wait)
			if s != nil && old != nil {
				pause(ctx, 2*probeInterval+s.RTT()) // the path is back: old may be heard any moment
			}
			cancel()
			n.post(func() { n.dialled(p, old, s, err) })
		})
	}
}

// dialling reports whether the node that p is, or may be, is being dialled: one
// that is both listed and discovered is dialled once.
func (n *Node) dialling(p *peer) bool {
	for _, other := range n.peers {
		if other.stop == nil {
			continue
		}
		if p.node() != "" && p.node() == other.node() {
			return true
		}
		shared := func(a transport.Addrs) bool {
			return slices.ContainsFunc(other.Addrs, func(b transport.Addrs) bool {
				return a.QUIC != nil && b.Include(a.QUIC) || a.SCTP != nil && b.Include(a.SCTP)
			})
		}
		if (p.node() == "" || other.node() == "") && slices.ContainsFunc(p.Addrs, shared) {
			return true
		}
	}
	return false
}

// wanted reports whether the node has a reason to dial p.
func (n *Node) wanted(p *peer) bool {
	if p.Static {
		return true
	}
	for _, w := range n.wishes {
		if match(w.Host, p.Host) {
			return true
		}
	}
	for _, w := range n.pushes {
		if w.Host == p.Host {
			return true
		}
	}
	return false
}

// linkTo returns the link to the node that p is, nil when there is none.
func (n *Node) linkTo(p *peer) *link {
	for id, l := range n.links {
		if p.node() == id.String() {
			return l
		}
		if p.node() == "" && slices.ContainsFunc(p.Addrs, func(a transport.Addrs) bool { return a.Include(l.s.RemoteAddr()) }) {
			return l
		}
	}
	return nil
}

// dial tries the addresses of a peer one after the other.
func (n *Node) dial(ctx context.Context, addrs []transport.Addrs, wait time.Duration) (s *transport.Session, err error) {
	pause(ctx, wait)
	for _, a := range addrs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		dctx, cancel := context.WithTimeout(ctx, dialTimeout)
		s, err = n.cfg.Endpoint.Dial(dctx, a)
		cancel()
		if err == nil {
			return s, nil
		}
	}
	return nil, err
}

// dialled takes what dialling p has come to, which was dialled because old, if not
// nil, was silent.
func (n *Node) dialled(p *peer, old *link, s *transport.Session, err error) {
	moved := errors.Is(err, context.Canceled)
	p.stop = nil
	n.changed = true
	if s != nil {
		p.err, p.reached = nil, s.Peer().Node.String()
		if old != nil && n.links[s.Peer().Node] == old {
			if _, silent := old.quiet(n.now()); !silent {
				n.listen(old)
				n.work.Go(func() { s.Close("the link that there is was heard again") })
				return
			}
		}
		n.linkUp(s)
		return
	}
	if moved {
		return
	}
	p.failures++
	if l := n.linkTo(p); l != nil && l.silent {
		return // the log tells it
	}
	first := p.err == nil
	p.err = err
	if first && !errors.Is(err, transport.ErrWrongKey) {
		n.log.Warn("peer cannot be reached, trying again", "peer", cmp.Or(p.Host, p.key()), "addr", p.Addrs[0].String(), "err", err)
	}
}

// unlinked lets the back-off towards a peer grow unless its link was a good one:
// a peer that never gets as far as that is not to be dialled at the pace of round
// trips.
func (n *Node) unlinked(l *link, cause error) {
	good := l.greeted && n.now() >= l.up+settled
	for _, p := range n.peers {
		switch {
		case p.node() != l.peer.String():
		case good:
			p.failures = 0
		default:
			p.failures++
			p.err = cause
		}
	}
}

// leaving has a node that ended its link dialled a moment later: whoever meets
// it while its last links are closing waits in vain for the rest of a handshake.
func (n *Node) leaving(id transport.NodeID) {
	for _, p := range n.peers {
		if p.node() == id.String() {
			p.failures = max(p.failures, 1)
		}
	}
}

// backoff grows from 0.1 s to 5 s, with a random third, so that hosts which
// lost the same switch do not all come back in the same millisecond.
func backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	d := min(firstBackoff<<min(failures-1, 10), lastBackoff)
	return d - time.Duration(rand.Int64N(int64(d)/3))
}
