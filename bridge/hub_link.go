package bridge

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"achbridge/bridge/hubway"
	"achbridge/bridge/mirror"
	"achbridge/bridge/send"
	"achbridge/bridge/status"
	"achbridge/bridge/transport/session"
	"achbridge/bridge/unit"
	"achbridge/bridge/via"
	"achbridge/wire"
)

// A link over the hub has only a control stream. It has no packets from which to measure the path,
// so it uses stamps. Each end requests the other's clock once a second. The answer gives the clock
// offset and the round trip, and shows that the peer is alive.
const (
	stampEvery = time.Second
	firstOnes  = 4                 // stamps sent at consecutive ticks when the link begins
	hubSilence = 2 * time.Second   // silence after which the link ends; at least hubRounds round trips
	hubRounds  = 8                 // minimum of hubSilence, in round trips
	stampShare = 8                 // the smoothed round trip moves by 1/stampShare of the difference to a new one
	hubName    = "through the hub" // name of the hub route in texts
)

// hubStamps has the round trip of a link over the hub, and when its stamps were sent. It belongs to
// the node's goroutine.
type hubStamps struct {
	requestedAt time.Duration                      // when the peer's clock was last requested
	count       int                                // number of requests for the peer's clock
	pulled      time.Duration                      // when Pulled was last sent to the peer
	round       time.Duration                      // smoothed round trip; 0 means unknown
	pings       map[time.Duration]chan<- send.Pong // pings that wait for an answer, by the T1 of their stamp
}

// askStamp requests the peer's clock if a request is due.
func (l *link) askStamp(now time.Duration) {
	if !l.overHub() || !l.hello.isReceived || l.path.stamps.count >= firstOnes && now < l.path.stamps.requestedAt+l.stampInterval() {
		return
	}
	l.path.stamps.requestedAt = now
	l.path.stamps.count++
	l.send(wire.Stamp{T1: uint64(max(now, 1))})
}

// stampInterval returns the interval of the stamps. The holder of an operator lock is asked at each tick, since its lock
// ends with its packets.
func (l *link) stampInterval() time.Duration {
	if l.n.locks.IsHolder(holderOf(l)) {
		return tick / 2 // due at the next tick, even if the last one was late
	}
	return stampEvery
}

// stamped answers the peer's request for our clock, or handles the answer to ours.
func (l *link) stamped(m wire.Stamp, now time.Duration) {
	if m.Asks() {
		l.send(wire.Stamp{T1: m.T1, T2: uint64(max(now, 1)), T3: uint64(max(l.n.now(), 1))})
		return
	}
	sent, received, answered := time.Duration(m.T1), time.Duration(m.T2), time.Duration(m.T3)
	rtt := now - sent - (answered - received)
	if rtt < 0 || sent > now || answered < received {
		return
	}
	l.frames.SampleClock(sent, received, answered, now)
	l.n.loop.post(func() { l.tookRound(sent, rtt) })
}

// tookRound handles the answer to a stamp that was sent at asked.
func (l *link) tookRound(asked, rtt time.Duration) {
	l.path.stamps.round = cmp.Or(l.path.stamps.round, rtt)
	l.path.stamps.round += (rtt - l.path.stamps.round) / stampShare
	if l.dial.trial != nil {
		l.dial.trial.Answered(rtt)
	}
	if ping := l.path.stamps.pings[asked]; ping != nil {
		ping <- send.Pong{RTT: rtt}
		delete(l.path.stamps.pings, asked)
	}
	for _, in := range l.inbound {
		if in.consumer != nil {
			in.consumer.ClockKnown()
		}
	}
}

// rtt returns the smoothed round trip of the link. It is measured with frames, and over the hub
// with stamps.
func (l *link) rtt() time.Duration {
	if l.overHub() {
		return cmp.Or(l.path.stamps.round, l.s.RTT())
	}
	return cmp.Or(l.frames.RTT(), l.s.RTT())
}

// patience returns how long a link over the hub may be silent before it ends.
func (l *link) patience() time.Duration {
	return max(hubSilence, hubRounds*l.rtt())
}

// listenHub ends a link over the hub that has fallen silent, so that the node dials its peer
// again. A connection without traffic may need minutes to detect the failure.
func (n *Node) listenHub(l *link) {
	if since, silent := l.quiet(n.now()); silent {
		n.linkDown(l, fmt.Errorf("%s is silent %s for %s: %w", l.host, hubName, unit.Time((n.now()-since).Round(100*time.Millisecond)), session.ErrSilent))
	}
}

// acceptHub accepts the streams that hosts open through the hub. Their sessions go to accept.
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

// errRenewed ends a session through the hub after this host's certificate was renewed. The peer
// would still check frames with the certificate from the beginning of the session.
const errRenewed = unwelcome("this host has another certificate now")

// checkHub does the periodic work of links and dials through the hub.
func (n *Node) checkHub() {
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
		l.reportFetched(now)
	}
	n.begin(n.peers.NextByHub(now, n.view()))
}

// reportFetched reports the received frames to the origin, at most once a second. It logs
// discarded frames: those that the origin did not seal, and replayed ones.
func (l *link) reportFetched(now time.Duration) {
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

// warnForged logs that frames from the hub were discarded.
func (l *link) warnForged(in *inbound, count uint64, why string) {
	if count == 0 {
		return
	}
	l.warn("the hub brings frames that are not put", status.Event{
		Kind: status.EventForged, Channel: in.m.Channel, Mirror: in.m.Name, Count: int(count), Text: "a frame from the hub " + why + ": it is not put",
	}, "count", count)
}

// hubPeer is the view that package hubway has of a link.
type hubPeer struct{ l *link }

// Send queues a control message.
func (p hubPeer) Send(m wire.Message) { p.l.send(m) }

// Host returns the peer's name.
func (p hubPeer) Host() string { return p.l.host }

// overHub reports whether the frames of the link's subscriptions go through the hub.
func (l *link) overHub() bool { return overHub(l.s) }

func overHub(s *session.Session) bool { return s.Transport() == via.Hub }

// admitOthers lets peers over the hub subscribe again to a channel. It was refused to them while
// another host received commands on it.
func (n *Node) admitOthers(channel string) {
	for _, l := range n.links {
		if l.overHub() && l.catalog.sent.refused[channel] {
			l.catalog.sent.admit(channel)
			n.loop.changed()
		}
	}
}

// namedNewest handles the origin's message about its newest frame.
func (l *link) namedNewest(m wire.Newest) {
	if in := l.inbound[m.Sub]; in != nil && in.consumer != nil {
		in.consumer.SetNewest(m.Seq)
	}
}

// keyed handles a key from the origin for one of our subscriptions. The first key starts the
// consumer.
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

// pulled handles the peer's report about frames that it received through the hub.
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

// showWay adds the route of a mirror's frames to its status.
func (m *binding) showWay(s *status.Mirror) {
	if m.link == nil {
		return
	}
	s.Way = m.link.way()
	if in := m.link.inbound[m.subID]; in != nil {
		s.AtHub = in.consumer.Replaced()
	}
}
