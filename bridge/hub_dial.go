package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/hubway"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/bridge/via"
)

// A host at the hub is dialled through it when something here needs the host, and it has had no link
// for a while, or a silent one. A direct link replaces one over the hub as soon as it is there.

const (
	// hubAfter is how long a host has to be without a link, or 4 RTT of its last one.
	hubAfter = time.Second
	// hubBackoff is the longest wait before a host that had a link through the hub is dialled again: a
	// dial costs nothing while there is no connection to the hub.
	hubBackoff = 200 * time.Millisecond
	// hubSettled is how long a link through the hub must have lasted for that.
	hubSettled = time.Second
	// maxHubDials is how many hosts are dialled through the hub at once. The hub can name any number.
	maxHubDials = 16
	// hubDialTime is how long a dial through the hub may take, which is some round trips.
	hubDialTime = 5 * time.Second
)

// errDirect ends a session through the hub.
const errDirect = unwelcome("there is a direct link")

// byHub is what a peer at the hub has beside any peer's.
type byHub struct {
	alone  time.Duration // since when its host has no link that is heard; 0: it has one
	after  time.Duration // how long that may last
	needed time.Duration // since when something here needs the host; 0: nothing does
}

// acceptHub takes the streams that hosts begin through the hub. Their sessions come to accept.
func (n *Node) acceptHub(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := n.cfg.Hub.Accept(ctx)
		if err != nil {
			pause(ctx, tick)
			continue
		}
		n.cfg.Endpoint.AcceptOver(conn)
	}
}

// dialHub dials the hosts for which it is time.
func (n *Node) dialHub(now time.Duration) {
	dials := 0
	for _, p := range n.peers {
		if p.Hub && p.stop != nil {
			dials++
		}
	}
	for _, p := range n.peers {
		if p.Hub && n.lacks(p, now) && p.stop == nil && dials < maxHubDials {
			dials++
			n.startHubDial(p)
		}
	}
}

// lacks reports whether it is time to dial p's host through the hub.
func (n *Node) lacks(p *peer, now time.Duration) bool {
	l := n.provedLink(p.Host)
	switch {
	case l != nil && (l.overHub() || !l.silent):
		p.alone, p.after = 0, max(hubAfter, 4*l.rtt())
	case p.alone == 0 && l != nil:
		p.alone = max(l.since, 1)
	case p.alone == 0:
		p.alone, p.after = max(now, 1), max(hubAfter, p.after)
	}
	switch {
	case !n.wanted(p) || n.over(p, p.Host) != via.Any:
		p.needed = 0
	case p.needed == 0:
		p.needed = max(now, 1) // a direct link may be there at the next look
	}
	return p.alone != 0 && p.needed != 0 && p.needed < now && now >= max(p.alone+p.after, p.due)
}

// provedLink is the link to the host that has proved to have that name, nil for none.
func (n *Node) provedLink(host string) *link {
	for _, l := range n.links {
		if l.s.Peer().Host == host {
			return l
		}
	}
	return nil
}

func (n *Node) startHubDial(p *peer) {
	ctx, cancel := context.WithTimeout(n.ctx, hubDialTime)
	p.stop = cancel
	host := p.Host
	n.work.Go(func() {
		s, err := n.dialThroughHub(ctx, host)
		cancel()
		n.post(func() { n.hubDialled(p, s, err) })
	})
}

// dialThroughHub returns a session with the host of that name and no other, wherever the hub has
// led the stream.
func (n *Node) dialThroughHub(ctx context.Context, host string) (*transport.Session, error) {
	conn, err := n.cfg.Hub.Dial(ctx, host)
	if err != nil {
		return nil, err
	}
	s, err := n.cfg.Endpoint.DialOver(ctx, conn)
	if err != nil {
		return nil, err
	}
	if s.Peer().Host != host {
		err := fmt.Errorf("the hub leads to another host: %w", answersThere(s))
		s.Close("it is not you that is wanted")
		return nil, err
	}
	return s, nil
}

// hubDialled handles the result of dialling p through the hub.
func (n *Node) hubDialled(p *peer, s *transport.Session, err error) {
	p.stop = nil
	n.changed = true
	if err != nil {
		n.hubDialFailed(p)
		n.unreachedByHub(p, err)
		return
	}
	p.failures, p.err = 0, nil
	n.linkUp(s)
}

// hubDialFailed delays the next dial.
func (n *Node) hubDialFailed(p *peer) {
	p.failures++
	most := lastBackoff
	if p.linked {
		most = hubBackoff
	}
	p.due = n.now() + backoff(p.failures, most)
}

// unreachedByHub records why p cannot be linked through the hub, and logs it when that begins.
func (n *Node) unreachedByHub(p *peer, err error) {
	first := p.err == nil
	if p.err = err; !first || errors.Is(err, trust.ErrWrongKey) || errors.Is(err, hubway.ErrAway) {
		return
	}
	n.events.Tell(slog.LevelWarn, "peer cannot be reached through the hub, trying again",
		status.Event{Kind: status.EventPeerUnreachable, Host: p.Host, Text: hubName + ": " + err.Error()}, "err", err)
}

// hubLinkEnded has a host dialled again whose link through the hub ended: at once if it had lasted.
func (n *Node) hubLinkEnded(l *link) {
	good := l.greeted && n.now() >= l.up+hubSettled
	for _, p := range n.peers {
		if !p.Hub || p.Host != l.s.Peer().Host {
			continue
		}
		if p.linked = good; !good {
			n.hubDialFailed(p)
			continue
		}
		p.failures, p.due = 0, 0
		p.alone, p.after = max(n.now(), 1), 0 // no need to wait for a direct link, which is dialled all the while
	}
}

// stopHubDials ends the dials through the hub to a host that has a direct link now.
func (n *Node) stopHubDials(l *link) {
	for _, p := range n.peers {
		if p.Hub && p.stop != nil && p.Host == l.s.Peer().Host {
			p.stop()
		}
	}
}

// givesWay reports whether a session through the hub is not needed, since there is a direct link
// that is heard.
func (n *Node) givesWay(s *transport.Session, old *link) bool {
	if !overHub(s) || old == nil || old.overHub() {
		return false
	}
	return !n.isSilent(old)
}

// toldBesides reports whether another peer tells of the host of p, which is at the hub: a peer with its
// addresses, or its link.
func (n *Node) toldBesides(p *peer) bool {
	if l := n.provedLink(p.Host); l != nil && !l.overHub() {
		return true
	}
	for _, q := range n.peers {
		if !q.Hub && n.nameOf(q) == p.Host && n.provedLink(p.Host) == nil && p.stop == nil && p.err == nil {
			return true
		}
	}
	return false
}

// hubPeerStatus returns the status of a host at the hub.
func (n *Node) hubPeerStatus(p *peer) status.Peer {
	s := status.Peer{Host: p.Host, Addrs: []string{status.AtHub}, State: status.PeerKnown}
	switch l := n.provedLink(p.Host); {
	case l != nil:
		s.State, s.Node, s.Network = status.PeerLinked, l.peer.String(), l.s.Network()
		return s
	case p.stop != nil:
		s.State = status.PeerDialling
	}
	if p.err != nil {
		setError(&s, p.err)
	}
	return s
}

// setError sets why there is no link to a peer.
func setError(s *status.Peer, err error) {
	s.Error, s.Cause, s.OwnCertificate = err.Error(), causeOf(err), errors.Is(err, transport.ErrOurCertificate)
}
