package bridge

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"achbridge/bridge/pacing"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
)

// peer is another node that may be dialled. It belongs to the node's goroutine. The goroutine
// that dials uses only its arguments.
type peer struct {
	Peer
	reached  string             // id of the node that answered last
	met      string             // host name of that node
	stop     context.CancelFunc // ends the present dial; nil when there is none
	moved    bool               // its link leads to an address at which it is no longer listed
	failures int
	err      error
	linked   bool          // a link to it that had lasted (settled) ended without a goodbye
	ended    time.Duration // when that link ended

	claim // of a peer that is only announced
	byHub // of a peer at the hub

	// Only for a node that has proved itself (proved.go):
	proved    bool
	called    string        // host name of its link
	notBefore time.Duration // the earliest time of the next trial (better.go)
	way       int           // counts trials: selects the address of the next one
	left      bool          // the node said goodbye
}

const dialTimeout = 1500 * time.Millisecond // for one address

// SetPeers replaces the list of nodes that may be dialled. The node uses the list only to know
// where to dial: a certificate proves which node answers. Existing links stay.
func (n *Node) SetPeers(list []Peer) {
	n.cfg.Endpoint.Expect(listedAddrs(list))
	n.call(func() {
		seen := make(map[string]*peer, len(list))
		for _, p := range list {
			key := p.key()
			for seen[key] != nil {
				key += "'" // entries that differ only in their addresses
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

// leftBehind reports whether the link to a peer leads to an address that was listed for it
// before and no longer is. Then the node dials without waiting for the link to fall silent.
func (n *Node) leftBehind(before, now Peer) bool {
	for id, l := range n.links {
		at := func(a transport.Addrs) bool { return a.Include(l.s.RemoteAddr()) }
		if id.String() == now.Node && slices.ContainsFunc(before.Addrs, at) && !slices.ContainsFunc(now.Addrs, at) {
			return true
		}
	}
	return false
}

// arrived records that a node is linked, and ends the dials to it.
func (n *Node) arrived(l *link) {
	if l.overHub() {
		return // dials to addresses go on: a direct link is better
	}
	n.stopHubDials(l)
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

// again resets the back-off and the error of earlier dials.
func (p *peer) again() {
	p.failures = 0
	if p.stop != nil {
		p.stop()
	}
}

// node is the id of the node that p is, as far as known.
func (p *peer) node() string { return cmp.Or(p.Node, p.reached) }

func (p Peer) key() string {
	if p.Hub {
		return "hub " + p.Host
	}
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

// dialWanted dials every wanted peer that has no link, or a silent one.
func (n *Node) dialWanted() {
	var claims []candidate
	n.dials.waiting = false
	proved := n.provedPeers()
	for _, p := range n.peers {
		if p.Hub || n.later(p) {
			continue
		}
		old := n.linkTo(p)
		if p.moved || old != nil && (old.overHub() || !n.takes(p, old.s)) {
			old = nil // replace the link although it is heard
		}
		if p.stop != nil || n.answers(p) || len(p.Addrs) == 0 || old != nil && !old.silent || !n.wanted(p) || p.Source == "" && n.dialling(p) {
			continue
		}
		addrs := n.dialAddrs(p)
		if len(addrs) == 0 {
			n.unreached(p, n.noTransport(p))
			continue
		}
		addrs, elsewhere := n.leftOver(p, addrs, proved)
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

// startDial dials p at addrs after wait. old is the silent link to p, nil for none.
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
			pause(ctx, 2*pacing.ProbeInterval+s.RTT()) // the path is back: old may be heard any moment
		}
		cancel()
		n.post(func() { n.dialled(p, old, s, err) })
	})
}

// answers reports whether a dial to p has succeeded and the Hello of the peer can still be on its way.
func (n *Node) answers(p *peer) bool {
	for key, l := range n.spares {
		if key.dialled && !l.greeted && l.trial == nil && n.now() < l.up+max(500*time.Millisecond, 4*l.s.RTT()) && p.isAt(l.s) {
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
	return p.lists(s.RemoteAddr())
}

// isListedAt reports whether a session is with an address of the listed peer p. The operator
// lists addresses, so the entry is about whichever node answers there.
func (p *peer) isListedAt(s *transport.Session) bool {
	return p.isAt(s) || p.Static && p.lists(s.RemoteAddr())
}

// dial tries the addresses of a peer one after the other until node answers; "" means any
// node. If only other nodes answer, it returns a session with one of them.
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

// dialled handles the result of dialling p. old is the silent link because of which p was
// dialled, nil for none.
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
			p.failures, p.linked = p.failures+1, false // another node has its address now
		}
		if old != nil && n.links[s.Peer().Node] == old {
			if !n.isSilent(old) {
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
		return // it is in the log
	}
	n.unreached(p, err)
}

// unreached records why p cannot be linked, and logs it when that begins. It limits the lines
// about announced peers, since any host can announce any number of them.
func (n *Node) unreached(p *peer, err error) {
	first := p.err == nil
	p.err = err
	if !first || errors.Is(err, trust.ErrWrongKey) || !p.proved && n.proof(p.node()) != nil {
		return
	}
	if n.mayTell(p) {
		addr := "" // a peer may have lost its addresses while it was dialled
		if len(p.Addrs) > 0 {
			addr = p.Addrs[0].String()
		}
		n.events.Tell(slog.LevelWarn, "peer cannot be reached, trying again",
			status.Event{Kind: status.EventPeerUnreachable, Host: cmp.Or(n.nameOf(p), p.key()), Text: err.Error()}, "addr", addr, "err", err)
	}
}
