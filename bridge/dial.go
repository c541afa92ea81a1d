package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/hubway"
	"achbridge/bridge/pacing"
	"achbridge/bridge/peers"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/transport/session"
	"achbridge/bridge/unit"
	"achbridge/bridge/via"
	"achbridge/wire"
)

// Package peers decides which dials to make. The node reports link changes to it (Linked,
// Unlinked, FellSilent, Recovered), runs the dials that it returns, and reports their results.

// Peer is another node that this node may dial.
type Peer = peers.Peer

const (
	dialTimeout = 1500 * time.Millisecond // for another address of a peer that has a link
	// hubDialTime is the timeout of a dial through the hub, which takes several round trips.
	hubDialTime = 5 * time.Second
	// settled is how long a link must have lasted so that its peer is dialled again without delay.
	settled = peers.Settled
)

// SetPeers replaces the list of nodes to dial. The list gives only addresses; the certificate
// proves which node answers. Existing links stay.
func (n *Node) SetPeers(list []Peer) {
	n.cfg.Endpoint.Expect(listedAddrs(list))
	n.loop.call(func() {
		n.peers.Set(list, n.view())
		n.loop.changed()
	})
}

// listedAddrs returns the addresses that the operator has listed.
func listedAddrs(list []Peer) (addrs []transport.Addrs) {
	for _, p := range list {
		if p.Static {
			addrs = append(addrs, p.Addrs...)
		}
	}
	return addrs
}

// Announced tells the node that discovery has received an announcement of a node, which may be forged. A peer that is not
// heard is then dialled earlier once. It does not block.
func (n *Node) Announced(node string) {
	n.loop.tryPost(func() { n.peers.Announced(n.now(), node) })
}

// Proved returns the names of the nodes that are linked now, or were linked in the last hour, by
// node id.
func (n *Node) Proved() (names map[string]string) {
	n.loop.call(func() { names = n.peers.Names(n.now(), n.view()) })
	return names
}

// ListedMissing reports whether a peer in the operator's list has no link, or only a silent one.
func (n *Node) ListedMissing() (missing bool) {
	n.loop.call(func() { missing = n.peers.IsListedMissing(n.view()) })
	return missing
}

// view returns the links and requests that the table of peers bases its decisions on.
func (n *Node) view() peers.View {
	v := peers.View{Linked: make(map[string]*peers.Link, len(n.links))}
	for _, l := range n.links {
		k := l.known()
		v.Linked[k.Node] = k
	}
	for key, l := range n.spares {
		if key.dialled && !l.hello.isReceived && l.dial.trial == nil && n.now() < l.lifecycle.upAt+max(500*time.Millisecond, 4*l.s.RTT()) {
			v.Answering = append(v.Answering, endOf(l.s))
		}
	}
	for _, w := range n.requests.list() {
		v.Wanted = append(v.Wanted, w.Host)
		v.Over = append(v.Over, peers.Choice{Host: w.Host, Over: w.Over})
	}
	for _, w := range n.pushes.rules {
		v.Over = append(v.Over, peers.Choice{Host: w.Host, Over: w.Over})
	}
	for _, w := range n.requests.temporary {
		v.Wanted = append(v.Wanted, w.Host)
	}
	for _, w := range n.pushes.list {
		v.Wanted = append(v.Wanted, w.Host)
	}
	return v
}

// known returns the description of the link for the table of peers.
func (l *link) known() *peers.Link {
	if l.dial.entry == nil {
		l.dial.entry = &peers.Link{End: endOf(l.s), Name: l.host, Network: l.s.Network(), UpAt: l.lifecycle.upAt, OnTrial: l.dial.trial != nil}
	}
	k, n := l.dial.entry, l.n
	k.At, k.RTT, k.IsSilent, k.SilentSince, k.HeardAt = addrOf(l.s), l.rtt(), l.isInSilence(), l.silence.since, l.heardAt(n.now())
	k.WrongMachine, k.CopyAt = n.machines.differs(l) != nil, transport.Addrs{}
	if c, isCopied := n.machines.copies[l.peer]; isCopied && !l.isGone(n.now()) {
		k.CopyAt.QUIC = c.at
	}
	return k
}

// endOf describes the remote end of a session.
func endOf(s *session.Session) peers.End {
	return peers.End{Node: s.Peer().Node.String(), Host: s.Peer().Host, At: addrOf(s), Via: s.Transport(), Dialled: s.Dialled()}
}

// addrOf returns the current address of a session's peer.
func addrOf(s *session.Session) transport.Addrs {
	if s.Transport() == via.SCTP {
		return transport.Addrs{SCTP: s.RemoteAddr()}
	}
	return transport.Addrs{QUIC: s.RemoteAddr()}
}

// dialWanted dials the requested peers that have no link or only a silent one.
func (n *Node) dialWanted() {
	n.begin(n.peers.Next(n.now(), n.view()))
	n.logUnreachable()
}

func (n *Node) begin(dials []*peers.Dial) {
	for _, d := range dials {
		ctx, cancel := context.WithCancel(n.loop.ctx)
		d.Cancel = cancel
		n.loop.work.Go(func() {
			s, err := n.dial(ctx, d)
			cancel()
			n.loop.post(func() { n.dialled(d, s, err) })
		})
	}
}

// dial opens a session with the peer of d. If only other nodes answer, it returns a session with
// one of them.
func (n *Node) dial(ctx context.Context, d *peers.Dial) (*session.Session, error) {
	if d.Host != "" {
		ctx, cancel := context.WithTimeout(ctx, hubDialTime)
		defer cancel()
		return dialThroughHub(ctx, &n.cfg, d.Host)
	}
	pause(ctx, d.Wait)
	s, err := dialAddrs(ctx, n.cfg.Endpoint, d)
	if s != nil && d.Silent != nil {
		pause(ctx, 2*pacing.ProbeInterval+s.RTT()) // the path works again, so the silent link may recover at any moment
	}
	return s, err
}

// dialAddrs dials the addresses of a peer one after the other until node d.Node answers.
func dialAddrs(ctx context.Context, endpoint *transport.Endpoint, d *peers.Dial) (other *session.Session, err error) {
	for _, a := range d.Addrs {
		if ctx.Err() != nil {
			err = ctx.Err()
			break
		}
		dctx, cancel := context.WithTimeout(ctx, d.Each)
		s, failure := endpoint.Dial(dctx, a)
		cancel()
		switch {
		case failure != nil:
			err = failure
		case d.Node == "" || d.Node == s.Peer().Node.String():
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

// dialThroughHub returns a session with the named host. It fails if the hub connects it to another
// host.
func dialThroughHub(ctx context.Context, cfg *Config, host string) (*session.Session, error) {
	conn, err := cfg.Hub.Dial(ctx, host)
	if err != nil {
		return nil, err
	}
	s, err := cfg.Endpoint.DialOver(ctx, conn)
	if err != nil {
		return nil, err
	}
	if s.Peer().Host != host {
		err := fmt.Errorf("the hub leads to another host: %w", peers.AnswersThere(endOf(s)))
		s.Close("it is not you that is wanted")
		return nil, err
	}
	return s, nil
}

// dialled handles the result of a dial.
func (n *Node) dialled(d *peers.Dial, s *session.Session, err error) {
	n.loop.changed()
	v := n.view()
	var end *peers.End
	if s != nil {
		e := endOf(s)
		end = &e
		if l := n.links[s.Peer().Node]; l != nil {
			v.Linked[e.Node].IsSilent = l.isSilent()
		}
	}
	outcome := n.peers.Dialled(n.now(), d, end, err, v)
	n.logUnreachable()
	switch outcome {
	case peers.Accepted:
		n.linkUp(s)
	case peers.Needless, peers.WrongNode:
		n.loop.work.Go(func() { s.Close("there is a link already") })
	case peers.NoRoom:
		n.turnAway(s)
	case peers.Recovered:
		n.listen(n.links[s.Peer().Node])
		n.loop.work.Go(func() { s.Close("the present link receives again") })
	}
}

// logUnreachable logs which peers cannot be reached. It does not log each host behind a hub that
// is itself unreachable.
func (n *Node) logUnreachable() {
	for _, u := range n.peers.Unreachable() {
		e := status.Event{Kind: status.EventPeerUnreachable, Host: u.Host, Text: u.Err.Error()}
		switch {
		case !u.ByHub:
			n.events.Record(slog.LevelWarn, "peer cannot be reached, trying again", e, "addr", u.Addr, "err", u.Err)
		case !errors.Is(u.Err, hubway.ErrAway):
			e.Text = hubName + ": " + e.Text
			n.events.Record(slog.LevelWarn, "peer cannot be reached through the hub, trying again", e, "err", u.Err)
		}
	}
}

// tryBetterRoute dials another address of l's peer, if a trial is due (package peers).
func (n *Node) tryBetterRoute(l *link) {
	if !l.hello.isReceived || len(n.standbysOf(l.peer)) > 0 || !n.peers.IsTrialDue(n.now(), l.known()) || n.machines.differs(l) == nil && n.carriesCommands(l) {
		return
	}
	at, ok := n.peers.NextTrial(n.now(), l.known(), n.view())
	if !ok {
		return
	}
	n.loop.work.Go(func() {
		ctx, cancel := context.WithTimeout(n.loop.ctx, dialTimeout)
		defer cancel()
		if s, err := n.cfg.Endpoint.Dial(ctx, at); err == nil {
			n.loop.post(func() { n.try(l, s) })
		}
	})
}

// carriesCommands reports whether a link carries a channel of class command in either direction.
// Such a link stays on its route while it works, since a command put during a move is not sent.
func (n *Node) carriesCommands(l *link) bool {
	for _, in := range l.inbound {
		if w, ok := n.requests.find(in.m.Host, in.m.Channel); ok && w.QoS.Class == rule.Command {
			return true
		}
	}
	return l.exports.hasCommands("")
}

// try makes a session with another address of the peer a spare on trial.
func (n *Node) try(old *link, s *session.Session) {
	refuse := func(why string) { n.loop.work.Go(func() { s.Close(why) }) }
	switch {
	case n.links[old.peer] != old || s.Peer().Node != old.peer || len(n.standbysOf(old.peer)) > 0:
		refuse("there is a link already")
		return
	case n.machines.differs(old) == nil && s.MaxDatagram() < old.s.MaxDatagram():
		old.dial.why = fmt.Sprintf("the way to %s carries smaller packets: %d bytes and not %d", s.RemoteAddr(), s.MaxDatagram(), old.s.MaxDatagram())
		refuse("it carries smaller packets than the link")
		return
	}
	l := n.newLink(s, old.host)
	if n.machines.differs(old) == nil {
		l.dial.trial = &peers.Trial{BeganAt: n.now()}
	}
	l.serve()
	n.spares[l.standbyKey()] = l
}

// goOn advances the trial of spare l. At the end of the trial, l replaces old or is dropped.
func (n *Node) goOn(l, old *link) {
	switch l.dial.trial.Next(n.now(), old.rtt()) {
	case peers.Stamp:
		l.send(wire.Stamp{T1: uint64(max(n.now(), 1))})
	case peers.Better:
		n.take(l)
	case peers.Worse:
		old.dial.why = ""
		n.dropStandby(l, unwelcome("the link is as good"))
	}
}

// otherWay returns a text for users about another route to l's peer, "" if none is known.
func (n *Node) otherWay(l *link) string {
	for _, standby := range n.standbysOf(l.peer) {
		if standby.dial.trial == nil {
			continue
		}
		if rtt := standby.dial.trial.RTT(); rtt > 0 {
			return fmt.Sprintf("the way to %s has a round trip of %s, and is being tried", standby.s.RemoteAddr(), unit.Time(rtt.Round(10*time.Microsecond)))
		}
	}
	return l.dial.why
}
