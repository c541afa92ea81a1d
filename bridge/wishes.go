package bridge

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"achbridge/wire"
)

// bindMirrors gives every channel that a peer offers and somebody wants a
// mirror and a subscription, and ends those that nothing justifies any more.
func (n *Node) bindMirrors() {
	n.dropUnwanted(Keep)
	for _, l := range n.links {
		for _, c := range l.catalog {
			if w, ok := n.wishFor(l.host, c.Name); ok {
				n.bind(l, c, w)
			}
		}
	}
	for _, m := range n.mirrors {
		if l := m.link; l != nil {
			if _, ok := l.catalog[m.channel]; !ok {
				n.unsubscribe(l, m.subID)
				m.unbind(fmt.Sprintf("%s does not offer %s now", m.host, m.channel))
			}
		}
	}
}

// wishFor returns the wish that covers a channel of a host. One for exactly this
// channel goes before what the host pushes, and that before patterns, of which
// the first wins.
func (n *Node) wishFor(host, channel string) (w Mirror, ok bool) {
	for _, w := range slices.Concat(n.wishes, n.pushed()) {
		if w.Host == host && w.Channel == channel {
			return w, true
		}
	}
	for _, w := range n.wishes {
		if w.covers(host, channel) {
			return w, true
		}
	}
	return Mirror{}, false
}

// pushed are the wishes that the peers' pushes have made here.
func (n *Node) pushed() []Mirror {
	var list []Mirror
	for _, l := range n.links {
		list = append(list, l.pushed...)
	}
	return list
}

// bind subscribes the mirror that w wishes for to channel c of l's peer, unless it
// is already.
func (n *Node) bind(l *link, c wire.Channel, w Mirror) {
	name := w.mirrorName(l.host, c.Name)
	m := n.mirrors[name]
	if m == nil {
		m = &mirror{
			name: name, host: l.host, channel: c.Name, qos: w.QoS,
			dir: n.cfg.Dir, space: n.space, adopt: n.cfg.Adopt, log: n.log, spawn: n.work.Go,
		}
		n.mirrors[name] = m
	}
	switch {
	case m.host != l.host || m.channel != c.Name:
		n.rival(m, l, c)
		return
	case m.link != nil && m.link != l && (l.silent || !m.link.silent):
		return // a second path to the same host
	case m.link == l && m.origin.Epoch == c.Epoch && !m.requalify(l, w.QoS):
		return
	case c.Origin != nil && c.Origin.Node == n.cfg.Node:
		m.refuse("loop: it is a channel of this host that " + l.host + " mirrors")
		return
	}
	if twin := n.twinOf(m, c); twin != nil {
		m.refuse("it is mirrored here already, as " + twin.name)
		return
	}
	if m.link != nil {
		n.unsubscribe(m.link, m.subID)
	}
	if n.now() < m.retry && m.origin.Epoch == c.Epoch {
		return
	}
	m.origin = c
	if err := n.openMirror(m, l, c); err != nil {
		m.retry = n.now() + time.Second
		m.refuse(err.Error())
		return
	}
	l.lastID++
	m.link, m.subID, m.retry = l, l.lastID, 0
	m.from = sourceOf(l, c)
	n.changed = true // the mirror may be offered again from now on
	l.subs[m.subID] = m
	m.changeClock(l.run)
	n.adopted(m)
	have := m.expect(c.Epoch, w.QoS)
	l.setInbound(m.subID, &inbound{m: m, epoch: c.Epoch, have: have, limit: largestFrame(c)})
	l.send(wire.Subscribe{ID: m.subID, Channel: c.Name, Epoch: c.Epoch, HaveSeq: have, QoS: w.QoS.wire()})
}

// requalify gives a running subscription another quality of service. It reports
// whether the mirror has to subscribe anew for it.
func (m *mirror) requalify(l *link, qos QoS) (anew bool) {
	m.mu.Lock()
	before := m.qos
	if before.Mode == qos.Mode {
		m.qos = qos
	}
	m.mu.Unlock()
	if before != qos && before.Mode == qos.Mode {
		l.send(m.update(false))
	}
	return before.Mode != qos.Mode
}

// rival names a channel whose mirror would have a name that is taken, once.
func (n *Node) rival(m *mirror, l *link, c wire.Channel) {
	other := l.host + "/" + c.Name
	if m.rivals[other] {
		return
	}
	if m.rivals == nil {
		m.rivals = make(map[string]bool)
	}
	m.rivals[other] = true
	n.log.Warn("two channels want the same mirror", "channel", m.name, "peer", l.host, "cause", m.host+"/"+m.channel+" has it; give "+other+" another name with --as")
}

// source is where a channel's frames were first put.
type source struct {
	node    [16]byte
	channel string
}

func sourceOf(l *link, c wire.Channel) source {
	if c.Origin != nil {
		return source{c.Origin.Node, c.Origin.Channel}
	}
	return source{l.peer, c.Name}
}

// twinOf returns another mirror of the channel that c, offered as a mirror, is
// a mirror of: what comes here a second time may have come round by ourselves.
func (n *Node) twinOf(m *mirror, c wire.Channel) *mirror {
	if c.Origin == nil {
		return nil
	}
	for _, other := range n.mirrors {
		if other != m && other.from == (source{c.Origin.Node, c.Origin.Channel}) {
			return other
		}
	}
	return nil
}

func (n *Node) openMirror(m *mirror, l *link, c wire.Channel) error {
	origin := [16]byte(l.peer)
	if c.Origin != nil {
		origin = c.Origin.Node
	}
	err := error(nil)
	if sum := l.assembling() + largestFrame(c); sum > maxAssembly {
		err = fmt.Errorf("%s/%s: frames of up to %d MiB, with those of the other mirrors of %s %d MiB, are more than the %d MiB one host may have under way; mirror fewer of its channels",
			l.host, c.Name, largestFrame(c)>>20, l.host, sum>>20, maxAssembly>>20)
	} else {
		err = m.open(c, origin)
	}
	if err != nil && m.retry == 0 {
		n.log.Warn("mirror refused", "channel", m.name, "peer", l.host, "err", err)
	}
	return err
}

// unsubscribe ends our subscription id on l.
func (n *Node) unsubscribe(l *link, id uint32) {
	m := l.subs[id]
	if m == nil {
		return
	}
	delete(l.subs, id)
	l.setInbound(id, nil)
	l.send(wire.Unsubscribe{ID: id})
	if m.link == l && m.subID == id {
		m.link, m.subID = nil, 0
	}
}

// dropUnwanted ends the mirrors that no wish covers.
func (n *Node) dropUnwanted(fate Fate) error {
	var errs []error
	for name, m := range n.mirrors {
		if n.stillWanted(m) {
			continue
		}
		if m.link != nil {
			n.unsubscribe(m.link, m.subID)
		}
		if fate == Remove {
			errs = append(errs, m.remove())
		}
		m.close()
		delete(n.mirrors, name)
		n.adopted(m)
	}
	return errors.Join(errs...)
}

func (n *Node) stillWanted(m *mirror) bool {
	w, ok := n.wishFor(m.host, m.channel)
	return ok && w.mirrorName(m.host, m.channel) == m.name
}
