package bridge

import (
	"context"
	"fmt"
	"time"

	"achbridge/bridge/peers"
	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/unit"
	"achbridge/wire"
)

// seekBetter dials another address of l's peer for a trial (try), if one is due (package peers).
func (n *Node) seekBetter(l *link) {
	if !l.greeted || len(n.sparesOf(l.peer)) > 0 || !n.peers.IsTrialDue(n.now(), l.known()) || n.machines.differs(l) == nil && n.carriesCommands(l) {
		return
	}
	at, ok := n.peers.NextTrial(n.now(), l.known(), n.view())
	if !ok {
		return
	}
	n.work.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, dialTimeout)
		defer cancel()
		if s, err := n.cfg.Endpoint.Dial(ctx, at); err == nil {
			n.loop.post(func() { n.try(l, s) })
		}
	})
}

// carriesCommands reports whether a link carries a channel of class command, in either direction.
// Such a link does not move while it works: a command that is put during the move is not sent.
func (n *Node) carriesCommands(l *link) bool {
	for _, in := range l.inbound {
		if w, ok := n.requests.find(in.m.Host, in.m.Channel); ok && w.QoS.Class == rule.Command {
			return true
		}
	}
	return l.exports.hasCommands("")
}

// try makes a session with another address of the peer a spare on trial.
func (n *Node) try(old *link, s *transport.Session) {
	refuse := func(why string) { n.work.Go(func() { s.Close(why) }) }
	switch {
	case n.links[old.peer] != old || s.Peer().Node != old.peer || len(n.sparesOf(old.peer)) > 0:
		refuse("there is a link already")
		return
	case n.machines.differs(old) == nil && s.MaxDatagram() < old.s.MaxDatagram():
		old.other = fmt.Sprintf("the way to %s carries smaller packets: %d bytes and not %d", s.RemoteAddr(), s.MaxDatagram(), old.s.MaxDatagram())
		refuse("it carries smaller packets than the link")
		return
	}
	l := n.newLink(s, old.host)
	if n.machines.differs(old) == nil {
		l.trial = &peers.Trial{BeganAt: n.now()}
	}
	l.serve()
	n.spares[l.spareKey()] = l
}

// goOn goes on with the trial of spare l. At its end l takes the place of old, or is dropped.
func (n *Node) goOn(l, old *link) {
	switch l.trial.Next(n.now(), old.rtt()) {
	case peers.Stamp:
		l.send(wire.Stamp{T1: uint64(max(n.now(), 1))})
	case peers.Better:
		n.take(l)
	case peers.Worse:
		old.other = ""
		n.dropSpare(l, unwelcome("the link is as good"))
	}
}

// otherWay returns a text for people about another way to l's peer, "" if none is known.
func (n *Node) otherWay(l *link) string {
	for _, spare := range n.sparesOf(l.peer) {
		if spare.trial == nil {
			continue
		}
		if rtt := spare.trial.RTT(); rtt > 0 {
			return fmt.Sprintf("the way to %s has a round trip of %s, and is being tried", spare.s.RemoteAddr(), unit.Time(rtt.Round(10*time.Microsecond)))
		}
	}
	return l.other
}
