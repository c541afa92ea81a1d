package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"achbridge/bridge/transport"
)

// peer is another node that may be dialled. It belongs to the node's
// goroutine; its dialler only reads what it was started with.
type peer struct {
	Peer
	reached  string             // node id of who answered last,
	met      string             // and its host name
	stop     context.CancelFunc // ends the dialling that is going on; nil when none is
	moved    bool               // its link leads to where it is no longer listed
	failures int
	err      error
	unlisted bool          // it is kept because it is missed
	linked   bool          // there was a good link to it that ended without a goodbye,
	ended    time.Duration // then
}

const dialTimeout = 1500 * time.Millisecond // for one address

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
			} else if known.Over != p.Over || !slices.EqualFunc(known.Addrs, p.Addrs, transport.Addrs.Equal) {
				known.again() // it moved
				known.moved = known.moved || n.leftBehind(known.Peer, p)
			}
			known.Peer, known.unlisted = p, false
			seen[key] = known
		}
		for key, p := range n.peers {
			switch {
			case seen[key] != nil:
			case n.missed(p):
				p.unlisted = true
				seen[key] = p
			default:
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

// name is the name of its host, as far as known.
func (p *peer) name() string { return cmp.Or(p.Host, p.met) }

func (p Peer) key() string {
	if p.Node != "" {
		return p.Node
	}
	if len(p.Addrs) > 0 {
		return p.Addrs[0].String()
	}
	return p.Host
}

// dialWanted dials every peer that somebody wants and no link serves; a silent
// link does not.
func (n *Node) dialWanted() {
	for key, p := range n.peers {
		old := n.linkTo(p)
		if p.unlisted && !n.missed(p) {
			p.again()
			delete(n.peers, key)
			continue
		}
		if p.moved || old != nil && !n.takes(p.Peer, old.s) {
			old = nil // whatever is heard on it
		}
		if p.stop != nil || len(p.Addrs) == 0 || old != nil && !old.silent || !n.wanted(p) || n.dialling(p) {
			continue
		}
		addrs := n.dialAddrs(p)
		if len(addrs) == 0 {
			n.unreached(p, n.noTransport(p))
			continue
		}
		ctx, cancel := context.WithCancel(n.ctx)
		p.stop = cancel
		wait := n.backoff(p, old)
		node := p.Node
		n.work.Go(func() {
			s, err := n.dial(ctx, addrs, node, wait)
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
	for _, w := range n.wishes() {
		if match(w.Host, p.Host) {
			return true
		}
	}
	for _, w := range n.peeks {
		if w.Host == p.Host {
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
	for _, l := range n.links {
		if p.isAt(l.s) {
			return l
		}
	}
	return nil
}

// isAt reports whether p is the node at the other end of a session: by its id, or
// by its address as long as that is not known.
func (p *peer) isAt(s *transport.Session) bool {
	if p.node() != "" {
		return p.node() == s.Peer().Node.String()
	}
	return slices.ContainsFunc(p.Addrs, func(a transport.Addrs) bool { return a.Include(s.RemoteAddr()) })
}

// dial tries the addresses of a peer one after the other. Where another node than
// the wanted one answers, "" for any, it tries the rest first.
func (n *Node) dial(ctx context.Context, addrs []transport.Addrs, node string, wait time.Duration) (other *transport.Session, err error) {
	pause(ctx, wait)
	for _, a := range addrs {
		if ctx.Err() != nil {
			err = ctx.Err()
			break
		}
		dctx, cancel := context.WithTimeout(ctx, dialTimeout)
		s, failure := n.cfg.Endpoint.Dial(dctx, a)
		cancel()
		switch {
		case failure != nil:
			err = failure
		case node == "" || node == s.Peer().Node.String():
			if other != nil {
				other.Close("it is not you that is wanted")
			}
			return s, nil
		case other == nil:
			other = s
		default:
			s.Close("it is not you that is wanted")
		}
	}
	if other != nil {
		return other, nil
	}
	return nil, err
}

// dialled takes what dialling p has come to, which was dialled because old, if not
// nil, was silent.
func (n *Node) dialled(p *peer, old *link, s *transport.Session, err error) {
	moved := errors.Is(err, context.Canceled)
	p.stop = nil
	n.changed = true
	if s != nil && n.astray(p, s) {
		other := s
		p.linked = false
		n.work.Go(func() { other.Close("there is a link already") })
		s, err = nil, fmt.Errorf("%s, node %s, answers there", other.Peer().Host, other.Peer().Node)
	}
	if s != nil && n.links[s.Peer().Node] == nil && n.crowded(s) {
		n.turnAway(s)
		s, err = nil, errTooManyLinks
	}
	if s != nil {
		p.err, p.reached, p.met = nil, s.Peer().Node.String(), s.Peer().Host
		if p.Node != "" && p.Node != p.reached {
			p.failures, p.linked = p.failures+1, false // another node lives at its address now
		}
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
	n.unreached(p, err)
}

// unreached notes why p cannot be linked, and logs it when that begins.
func (n *Node) unreached(p *peer, err error) {
	first := p.err == nil
	p.err = err
	if first && !errors.Is(err, transport.ErrWrongKey) {
		n.events.tell(slog.LevelWarn, "peer cannot be reached, trying again",
			Event{Kind: PeerUnreachable, Host: cmp.Or(p.Host, p.key()), Text: err.Error()}, "addr", p.Addrs[0].String(), "err", err)
	}
}

// astray reports that a session with another node came of dialling p, whose address
// that node has now, and that there is a link to it which works. Without one the
// session is welcome: p's host may have come back as that node.
func (n *Node) astray(p *peer, s *transport.Session) bool {
	id := s.Peer().Node
	l := n.links[id]
	if p.Node == "" || p.Node == id.String() || l == nil {
		return false
	}
	_, silent := l.quiet(n.now())
	return !silent
}
