package bridge

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
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
	linked   bool          // there was a good link to it that ended without a goodbye,
	ended    time.Duration // then

	claim // of a peer that is only announced

	// Of a node that has proved itself (proved.go); of what is listed or announced these are empty.
	proved bool
	called string // what its link was called here
	left   bool   // it said goodbye
}

const dialTimeout = 1500 * time.Millisecond // for one address

// SetPeers replaces the list of nodes that may be dialled. Nothing of it is believed but
// that somebody may answer at an address: who that is, its certificate says. Links that
// run are not touched.
func (n *Node) SetPeers(list []Peer) {
	n.cfg.Endpoint.Expect(listedAddrs(list))
	n.call(func() {
		seen := make(map[string]*peer, len(list))
		for _, p := range list {
			key := p.key()
			for seen[key] != nil {
				key += "'" // the same is said of several addresses
			}
			known := n.peers[key]
			if known == nil {
				known = &peer{}
			} else if known.Over != p.Over || !slices.EqualFunc(known.Addrs, p.Addrs, transport.Addrs.Equal) {
				known.again() // it moved
				known.moved = known.moved || n.leftBehind(known.Peer, p)
			}
			known.Peer = p
			seen[key] = known
		}
		for key, p := range n.peers {
			switch {
			case p.proved:
				seen[key] = p
			case seen[key] == nil:
				p.again()
			}
		}
		n.peers = seen
		n.changed = true
	})
}

// listedAddrs is where the peers are that the operator has listed.
func listedAddrs(list []Peer) (addrs []transport.Addrs) {
	for _, p := range list {
		if p.Static {
			addrs = append(addrs, p.Addrs...)
		}
	}
	return addrs
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

// arrived notes that a link leads to a node, so that nobody dials it any more.
func (n *Node) arrived(l *link) {
	for _, p := range n.peers {
		if p.Node == "" && p.lists(l.s.RemoteAddr()) {
			p.reached, p.met = l.peer.String(), l.s.Peer().Host
		}
		if !p.isAt(l.s) {
			continue
		}
		p.moved = false
		if p.stop != nil && n.stays(l) {
			p.stop()
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
	if p.Source != "" {
		return p.claimKey()
	}
	if p.Node != "" {
		return p.Node + " " + p.Host
	}
	if len(p.Addrs) > 0 {
		return p.Addrs[0].String()
	}
	return p.Host
}

// dialWanted dials every peer that somebody wants and no link serves; a silent
// link does not.
func (n *Node) dialWanted() {
	var claims []candidate
	n.dials.waiting = false
	for _, p := range n.peers {
		if n.later(p) {
			continue
		}
		old := n.linkTo(p)
		if p.moved || old != nil && !n.takes(p, old.s) {
			old = nil // whatever is heard on it
		}
		if p.stop != nil || len(p.Addrs) == 0 || old != nil && !old.silent || !n.wanted(p) || p.Source == "" && n.dialling(p) {
			continue
		}
		addrs := n.dialAddrs(p)
		if len(addrs) == 0 {
			n.unreached(p, n.noTransport(p))
			continue
		}
		addrs, elsewhere := n.leftOver(p, addrs)
		if len(addrs) == 0 {
			if elsewhere != nil {
				n.unreached(p, elsewhere)
			}
			continue
		}
		if p.Source != "" {
			claims = append(claims, candidate{p, old, addrs})
			continue
		}
		n.startDial(p, old, addrs, n.backoff(p, old))
	}
	n.dialClaims(claims)
}

// startDial dials p at addrs after wait; old is its link that is silent, if there is one.
func (n *Node) startDial(p *peer, old *link, addrs []transport.Addrs, wait time.Duration) {
	ctx, cancel := context.WithCancel(n.ctx)
	p.stop = cancel
	if !p.proved && n.proof(p.node()) != nil {
		wait += headStart
	}
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
	return p.lists(s.RemoteAddr())
}

// isListedAt reports whether what is said of a listed peer is meant for the node at the
// other end of a session: the operator lists addresses, so whoever is there is meant.
func (p *peer) isListedAt(s *transport.Session) bool {
	return p.isAt(s) || p.Static && p.lists(s.RemoteAddr())
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
	n.settleClaim(p, old, s)
	if s != nil && n.needless(p, old, s) {
		second := s
		n.work.Go(func() { second.Close("there is a link already") })
		n.vacate(s)
		if p.Node != "" && p.Node != s.Peer().Node.String() {
			p.linked = false
			s, err = nil, answersThere(s)
		} else {
			p.err, p.reached, p.met = nil, s.Peer().Node.String(), s.Peer().Host
			return
		}
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

// unreached notes why p cannot be linked, and tells it when that begins. Of what is only
// announced it tells little: anybody can announce any number of hosts.
func (n *Node) unreached(p *peer, err error) {
	first := p.err == nil
	p.err = err
	if !first || errors.Is(err, trust.ErrWrongKey) || !p.proved && n.proof(p.node()) != nil {
		return
	}
	if n.mayTell(p) {
		n.events.Tell(slog.LevelWarn, "peer cannot be reached, trying again",
			status.Event{Kind: status.EventPeerUnreachable, Host: cmp.Or(n.nameOf(p), p.key()), Text: err.Error()}, "addr", p.Addrs[0].String(), "err", err)
	}
}
