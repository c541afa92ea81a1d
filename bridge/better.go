package bridge

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/unit"
	"achbridge/bridge/via"
	"achbridge/wire"
)

// A link stays at the address where it began. A better way may appear later: the cable is in
// again, but the link still runs over the radio. So the node that dialled a link tries the
// peer's other addresses, one a minute. It holds a second session to such an address as a spare
// for ten seconds, sends two stamps a second over it, and compares the round trips with those of
// the link. While the link leads to another machine than the one to which commands went, the
// node also looks for that machine at the peer's other addresses.

const (
	// tryEvery is the time between two trials with one peer. So a link that has moved does not
	// move back sooner, unless it fails.
	tryEvery  = time.Minute
	tryTime   = 10 * time.Second       // the duration of a trial
	tryStamps = 500 * time.Millisecond // between two stamps
	tryLast   = time.Second            // the end of a trial, without new stamps: the last one can still be answered
	// tryProves is how long a link must last after it has moved. If it fails sooner, the link to that peer does not
	// move again for tryLater.
	tryProves = 5 * time.Minute
	tryLater  = time.Hour
	// mostWays bounds the number of addresses that are tried for one peer.
	mostWays = 8
	// tryAbove is the least round trip of a link with which another way is tried. For a shorter one no better
	// way is worth a handshake.
	tryAbove = 2 * time.Millisecond
)

// wayTrial compares the way of a spare, to which it belongs, with that of the link. It
// belongs to the node's goroutine.
type wayTrial struct {
	began, asked time.Duration   // when the trial began, and when the last stamp was sent
	count        int             // number of stamps sent
	rounds       []time.Duration // round trips of the stamps answered
	link         []time.Duration // round trips of the link, one for each stamp sent
}

// seekBetter dials another address of l's peer for a trial (try), if one is due.
func (n *Node) seekBetter(l *link) {
	p, now := n.proof(l.peer.String()), n.now()
	if p == nil || !l.s.Dialled() || !l.greeted || l.silent || l.overHub() || len(n.sparesOf(l.peer)) > 0 {
		return
	}
	isOther := n.otherMachine(l) != nil // the machine to which commands went may be at another address
	if now < max(l.up+tryTime, p.notBefore) || !isOther && (l.rtt() < tryAbove || n.carriesCommands(l)) {
		return
	}
	p.notBefore = now + tryEvery
	if isOther {
		p.notBefore = now + tryTime
	}
	ways := n.otherWays(l, p)
	if len(ways) == 0 {
		return
	}
	p.way++
	at := ways[p.way%len(ways)]
	n.work.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, dialTimeout)
		defer cancel()
		if s, err := n.cfg.Endpoint.Dial(ctx, at); err == nil {
			n.post(func() { n.try(l, s) })
		}
	})
}

// otherWays returns addresses of l's peer other than that of l, for the same transport, at most
// mostWays: first those that the operator lists, since anybody can announce any number of others.
func (n *Node) otherWays(l *link, p *peer) (list []transport.Addrs) {
	about := n.toldOf(p)
	slices.SortStableFunc(about, func(a, b *peer) int { return cmp.Compare(a.Source, b.Source) })
	for _, q := range about {
		for _, a := range n.dialAddrs(q) {
			if l.s.Transport() == via.QUIC {
				a.SCTP = nil
			} else {
				a.QUIC = nil
			}
			if a != (transport.Addrs{}) && !a.Include(l.s.RemoteAddr()) && (n.otherMachine(l) != nil || !n.isCopyAt(p.Node, a)) && !slices.ContainsFunc(list, a.Equal) {
				list = append(list, a)
			}
			if len(list) == mostWays {
				return list
			}
		}
	}
	return list
}

// carriesCommands reports whether a link carries a channel of class command, in either direction.
// Such a link does not move while it works: a command that is put during the move is not sent.
func (n *Node) carriesCommands(l *link) bool {
	for _, in := range l.inbound {
		if w, ok := n.wishFor(in.m.Host, in.m.Channel); ok && w.QoS.Class == rule.Command {
			return true
		}
	}
	return l.exports.hasCommands("")
}

// failed is called when a link ends or falls silent. If the link moved less than tryProves ago,
// the next link to its peer does not move for tryLater: an attacker may have announced the new
// way only to cut it.
func (n *Node) failed(l *link) {
	if p := n.proof(l.peer.String()); p != nil && l.trial != nil && n.now() < l.up+tryProves {
		p.notBefore = n.now() + tryLater
	}
}

// try makes a session with another address of the peer a spare on trial.
func (n *Node) try(old *link, s *transport.Session) {
	refuse := func(why string) { n.work.Go(func() { s.Close(why) }) }
	switch {
	case n.links[old.peer] != old || s.Peer().Node != old.peer || len(n.sparesOf(old.peer)) > 0:
		refuse("there is a link already")
		return
	case n.otherMachine(old) == nil && s.MaxDatagram() < old.s.MaxDatagram():
		old.other = fmt.Sprintf("the way to %s carries smaller packets: %d bytes and not %d", s.RemoteAddr(), s.MaxDatagram(), old.s.MaxDatagram())
		refuse("it carries smaller packets than the link")
		return
	}
	l := n.newLink(s, old.host)
	if n.otherMachine(old) == nil {
		l.trial = &wayTrial{began: n.now()}
	}
	l.serve()
	n.spares[l.spareKey()] = l
}

// goOn sends the next stamp of a trial when it is due. At the end of the trial it reports whether
// spare l is to take the place of old; if not, it drops l.
func (n *Node) goOn(l, old *link) (better bool) {
	t, now := l.trial, n.now()
	switch since := now - t.began; {
	case since < tryTime-tryLast:
		if now >= t.asked+tryStamps {
			t.asked = now
			t.count++
			t.link = append(t.link, old.rtt())
			l.send(wire.Stamp{T1: uint64(max(now, 1))})
		}
		return false
	case since < tryTime:
		return false
	}
	if t.isBetter() {
		return true
	}
	old.other = ""
	n.dropSpare(l, unwelcome("the link is as good"))
	return false
}

// isBetter reports whether all stamps were answered, none more slowly than the link's median
// round trip, and the median of their round trips is at most half of the link's.
func (t *wayTrial) isBetter() bool {
	if len(t.rounds) < t.count || len(t.rounds) == 0 {
		return false
	}
	link := medianOf(t.link)
	return 2*medianOf(t.rounds) <= link && slices.Max(t.rounds) <= link
}

func medianOf(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// otherWay returns a text for people about another way to l's peer, "" if none is known.
func (n *Node) otherWay(l *link) string {
	for _, spare := range n.sparesOf(l.peer) {
		if spare.trial == nil {
			continue
		}
		if rounds := spare.trial.rounds; len(rounds) > 0 {
			return fmt.Sprintf("the way to %s has a round trip of %s, and is being tried", spare.s.RemoteAddr(), unit.Time(medianOf(rounds).Round(10*time.Microsecond)))
		}
	}
	return l.other
}
