package bridge

import (
	"context"
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
	dialling bool
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
			} else if !slices.EqualFunc(known.Addrs, p.Addrs, sameAddr) {
				known.failures = 0 // it moved: try at once
			}
			known.Peer = p
			seen[key] = known
		}
		n.peers = seen
		n.changed = true
	})
}

func (p Peer) key() string {
	if p.Node != "" {
		return p.Node
	}
	if len(p.Addrs) > 0 {
		return p.Addrs[0].String()
	}
	return p.Host
}

func sameAddr(a, b net.Addr) bool { return a.String() == b.String() }

// dialWanted dials every peer that somebody wants and no link serves.
func (n *Node) dialWanted() {
	for key, p := range n.peers {
		if p.dialling || len(p.Addrs) == 0 || n.linked(p) || !n.wanted(p) {
			continue
		}
		p.dialling = true
		wait := backoff(p.failures)
		addrs := slices.Clone(p.Addrs)
		n.work.Go(func() { n.dial(n.ctx, key, addrs, wait) })
	}
}

// wanted reports whether the node has a reason to dial p.
func (n *Node) wanted(p *peer) bool {
	if p.Static {
		return true
	}
	for _, w := range n.wishes {
		if matches([]string{w.Host}, p.Host) {
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

// linked reports whether a link serves p.
func (n *Node) linked(p *peer) bool {
	for id, l := range n.links {
		if p.Node == id.String() || p.Node == "" && slices.ContainsFunc(p.Addrs, func(a net.Addr) bool { return sameAddr(a, l.s.RemoteAddr()) || l.dialledAs == p.key() }) {
			return true
		}
	}
	return false
}

// dial tries the addresses of a peer one after the other and reports to the
// node's goroutine.
func (n *Node) dial(ctx context.Context, key string, addrs []net.Addr, wait time.Duration) {
	pause(ctx, wait)
	var s *transport.Session
	var err error
	for _, a := range addrs {
		if ctx.Err() != nil {
			return
		}
		dctx, cancel := context.WithTimeout(ctx, dialTimeout)
		s, err = n.cfg.Endpoint.Dial(dctx, a)
		cancel()
		if err == nil {
			break
		}
	}
	n.post(func() { n.dialled(key, s, err) })
}

func (n *Node) dialled(key string, s *transport.Session, err error) {
	p := n.peers[key]
	if p != nil {
		p.dialling = false
		p.err = err
		p.failures++
		if err == nil {
			p.failures = 0
		} else if p.failures == 1 {
			n.log.Warn("peer cannot be reached, trying again", "peer", p.Host, "addr", p.Addrs[0].String(), "err", err)
		}
	}
	n.changed = true
	if s == nil {
		return
	}
	if l := n.linkUp(s); l != nil {
		l.dialledAs = key
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
