package bridge

import (
	"achbridge/bridge/hubway"
	"achbridge/bridge/mirror"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/via"
	"achbridge/wire"
)

// hubPeer is a link as package hubway sees it.
type hubPeer struct{ l *link }

// Send queues a control message.
func (p hubPeer) Send(m wire.Message) { p.l.send(m) }

// Host returns the peer's name.
func (p hubPeer) Host() string { return p.l.host }

// overHub reports whether frames of the link's subscriptions go through the hub.
func (l *link) overHub() bool { return overHub(l.s) }

func overHub(s *transport.Session) bool { return s.Transport() == via.Hub }

// admitOthers has l's peers ask again for a channel that was refused to them while another
// host received commands by it.
func (n *Node) admitOthers(channel string) {
	for _, l := range n.links {
		if l.overHub() && l.advertised.refused[channel] {
			l.advertised.admit(channel)
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
		in.consumer = hubway.NewConsumer(n.ctx, n.work.Go, hubway.ConsumerConfig{
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
