package bridge

import (
	"achbridge/bridge/hubway"
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
			n.changed = true
		}
	}
}

// namedNewest takes the origin's word on which frame is its newest.
func (n *Node) namedNewest(l *link, m wire.Newest) {
	if in := l.inbound(m.Sub); in != nil && in.consumer != nil {
		in.consumer.SetNewest(m.Seq)
	}
}

// consumer returns what feeds our subscription id from the hub, nil if nothing does.
func (l *link) consumer(id uint32) *hubway.Consumer {
	if in := l.inbound(id); in != nil {
		return in.consumer
	}
	return nil
}

// keyed takes a key of the origin for one of our subscriptions. The first one begins the fetching.
func (n *Node) keyed(l *link, m wire.Key) {
	in := l.inbound(m.Sub)
	if in == nil || !l.overHub() || n.cfg.Hub == nil {
		return
	}
	if in.consumer == nil {
		peer := l.s.Peer()
		c := hubway.NewConsumer(n.ctx, n.work.Go, hubway.ConsumerConfig{
			Channel: n.cfg.Hub.Channel(peer.Host, in.m.Channel), Mirror: in.m.Mirror, Feed: &in.feed, Limit: in.limit, Newest: in.last,
			Origin: peer.Node, SignedBy: l.s.SignedBy(), ReadClock: l.readClock,
		})
		l.inMu.Lock()
		in.consumer = c
		l.inMu.Unlock()
	}
	in.consumer.SetKey(m)
}

// pulled takes a report of what l's peer has received through the hub.
func (n *Node) pulled(l *link, m wire.Pulled) {
	l.mu.Lock()
	x := l.exports.byID[m.Sub]
	l.mu.Unlock()
	if x == nil {
		return
	}
	if s, ok := x.plane.(*hubway.Subscription); ok {
		s.Pulled(m)
	}
}

// consumers returns our subscriptions that are fed from the hub, by id.
func (l *link) consumers() map[uint32]*inbound {
	l.inMu.RLock()
	defer l.inMu.RUnlock()
	list := make(map[uint32]*inbound)
	for id, in := range l.imports {
		if in.consumer != nil { // the node sets it once, under inMu
			list[id] = in
		}
	}
	return list
}

func (l *link) way() status.Way { return status.WayOver(l.s.Transport()) }

// showWay adds to a mirror's status by which way its frames come.
func (m *binding) showWay(s *status.Mirror) {
	if m.link == nil {
		return
	}
	s.Way = m.link.way()
	s.AtHub = m.link.consumer(m.subID).Replaced()
}
