package bridge

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"achbridge/bridge/hubway"
	"achbridge/bridge/mirror"
	"achbridge/bridge/status"
	"achbridge/bridge/transport/session"
	"achbridge/bridge/unit"
	"achbridge/bridge/via"
	"achbridge/wire"
)

// A link over the hub has a control stream alone. What other links learn from their packets, it
// learns from stamps: each end asks for the other's clock once a second, which tells the offset of
// the clocks and the round trip, and that the peer is there.
const (
	stampEvery = time.Second
	firstOnes  = 4                 // stamps that follow each other at every tick
	hubSilence = 2 * time.Second   // for which nothing may come before the link ends; at least 8 RTT
	hubRounds  = 8                 // see hubSilence
	stampShare = 8                 // weight of a new round trip in the smoothed one
	hubName    = "through the hub" // where a link is told of
)

// stamps is what a link over the hub knows of the way there. It belongs to the node's goroutine.
type stamps struct {
	asked  time.Duration                          // when the peer's clock was asked for last
	count  int                                    // how often
	pulled time.Duration                          // when the peer was told last what was pulled
	round  time.Duration                          // smoothed round trip; 0: not known
	pings  map[time.Duration]chan<- time.Duration // that wait for the answer to the stamp of this time
}

// askStamp asks for the peer's clock when it is time to.
func (l *link) askStamp(now time.Duration) {
	if !l.overHub() || !l.hello.isReceived || l.path.stamps.count >= firstOnes && now < l.path.stamps.asked+stampEvery {
		return
	}
	l.path.stamps.asked = now
	l.path.stamps.count++
	l.send(wire.Stamp{T1: uint64(max(now, 1))})
}

// stamped answers the peer's question for our clock, or takes the answer to ours.
func (l *link) stamped(m wire.Stamp, now time.Duration) {
	if m.Asks() {
		l.send(wire.Stamp{T1: m.T1, T2: uint64(max(now, 1)), T3: uint64(max(l.n.now(), 1))})
		return
	}
	asked, heard, said := time.Duration(m.T1), time.Duration(m.T2), time.Duration(m.T3)
	rtt := now - asked - (said - heard)
	if rtt < 0 || asked > now || said < heard {
		return
	}
	l.frames.SampleClock(asked, heard, said, now)
	l.n.loop.post(func() { l.tookRound(asked, rtt) })
}

// tookRound handles the answer to a stamp that left at asked.
func (l *link) tookRound(asked, rtt time.Duration) {
	l.path.stamps.round = cmp.Or(l.path.stamps.round, rtt)
	l.path.stamps.round += (rtt - l.path.stamps.round) / stampShare
	if l.dial.trial != nil {
		l.dial.trial.Answered(rtt)
	}
	if ping := l.path.stamps.pings[asked]; ping != nil {
		ping <- rtt
		delete(l.path.stamps.pings, asked)
	}
	for _, in := range l.inbound {
		if in.consumer != nil {
			in.consumer.ClockKnown()
		}
	}
}

// rtt returns the smoothed round trip of the link: of frames, and over the hub of stamps.
func (l *link) rtt() time.Duration {
	if l.overHub() {
		return cmp.Or(l.path.stamps.round, l.s.RTT())
	}
	return cmp.Or(l.frames.RTT(), l.s.RTT())
}

// patience is for how long nothing may come over the hub before the link ends.
func (l *link) patience() time.Duration {
	return max(hubSilence, hubRounds*l.rtt())
}

// listenHub ends a link over the hub that has fallen silent: its peer is dialled anew, since a
// connection over which nothing comes may need minutes to find out.
func (n *Node) listenHub(l *link) {
	if since, silent := l.quiet(n.now()); silent {
		n.linkDown(l, fmt.Errorf("%s is silent %s for %s: %w", l.host, hubName, unit.Time((n.now()-since).Round(100*time.Millisecond)), session.ErrSilent))
	}
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

// errRenewed ends a session through the hub whose peer would check the frames of this host by the
// certificate that it had when the session began.
const errRenewed = unwelcome("this host has another certificate now")

// lookAtHub runs at every tick, for what goes through the hub.
func (n *Node) lookAtHub() {
	if n.cfg.Hub == nil {
		return
	}
	now := n.now()
	for _, l := range n.links {
		if l.overHub() && !n.cfg.Endpoint.Signs(l.s) {
			n.linkDown(l, errRenewed)
			continue
		}
		l.askStamp(now)
		l.tellPulls(now)
	}
	n.begin(n.peers.NextByHub(now, n.view()))
}

// tellPulls reports to the origin what came, once a second while something does, and tells of
// frames that are not the origin's.
func (l *link) tellPulls(now time.Duration) {
	if !l.overHub() || now < l.path.stamps.pulled+time.Second {
		return
	}
	l.path.stamps.pulled = now
	for id, in := range l.inbound {
		if in.consumer == nil {
			continue
		}
		r := in.consumer.Report()
		if r.IsNew {
			r.Pulled.Sub = id
			l.send(r.Pulled)
		}
		l.warnForged(in, r.Forged, "was not sealed by "+l.host)
		l.warnForged(in, r.Replayed, "came again, or after a later one")
	}
}

// warnForged tells that the hub brought frames that were not put.
func (l *link) warnForged(in *inbound, count uint64, why string) {
	if count == 0 {
		return
	}
	l.warn("the hub brings frames that are not put", status.Event{
		Kind: status.EventForged, Channel: in.m.Channel, Mirror: in.m.Name, Count: int(count), Text: "a frame from the hub " + why + ": it is not put",
	}, "count", count)
}

// hubPeer is a link as package hubway sees it.
type hubPeer struct{ l *link }

// Send queues a control message.
func (p hubPeer) Send(m wire.Message) { p.l.send(m) }

// Host returns the peer's name.
func (p hubPeer) Host() string { return p.l.host }

// overHub reports whether frames of the link's subscriptions go through the hub.
func (l *link) overHub() bool { return overHub(l.s) }

func overHub(s *session.Session) bool { return s.Transport() == via.Hub }

// admitOthers has l's peers ask again for a channel that was refused to them while another
// host received commands by it.
func (n *Node) admitOthers(channel string) {
	for _, l := range n.links {
		if l.overHub() && l.catalog.sent.refused[channel] {
			l.catalog.sent.admit(channel)
			n.loop.changed()
		}
	}
}

// namedNewest takes the origin's word on which frame is its newest.
func (l *link) namedNewest(m wire.Newest) {
	if in := l.inbound[m.Sub]; in != nil && in.consumer != nil {
		in.consumer.SetNewest(m.Seq)
	}
}

// keyed takes a key of the origin for one of our subscriptions. The first one begins the fetching.
func (n *Node) keyed(l *link, m wire.Key) {
	in := l.inbound[m.Sub]
	if in == nil || !l.overHub() || n.cfg.Hub == nil {
		return
	}
	if in.consumer == nil {
		peer := l.s.Peer()
		in.consumer = hubway.NewConsumer(n.loop.ctx, n.loop.work.Go, hubway.ConsumerConfig{
			Channel: n.cfg.Hub.Channel(peer.Host, in.m.Channel), Mirror: in.Mirror, Feed: &in.Feed, Limit: in.Limit, Newest: in.last,
			Origin: peer.Node, SignedBy: l.s.SignedBy(), ReadClock: func() mirror.Reading { return l.frames.ReadClock(n.now()) },
		})
	}
	in.consumer.SetKey(m)
}

// pulled takes a report of what l's peer has received through the hub.
func (l *link) pulled(m wire.Pulled) {
	x := l.exports.byID[m.Sub]
	if x == nil {
		return
	}
	if s, ok := x.plane.(*hubway.Subscription); ok {
		s.Pulled(m)
	}
}

func (l *link) way() status.Way { return status.WayOver(l.s.Transport()) }

// showWay adds to a mirror's status by which way its frames come.
func (m *binding) showWay(s *status.Mirror) {
	if m.link == nil {
		return
	}
	s.Way = m.link.way()
	if in := m.link.inbound[m.subID]; in != nil {
		s.AtHub = in.consumer.Replaced()
	}
}
