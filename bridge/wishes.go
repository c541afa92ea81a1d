package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// bindMirrors gives every channel that a peer offers and somebody wants a
// mirror and a subscription, and ends those that nothing justifies any more.
func (n *Node) bindMirrors() {
	n.dropUnwanted(Keep)
	mirrored := n.mirrored()
	for _, l := range n.links {
		n.seek(l)
		named := n.named(l)
		for _, c := range n.inTurn(l) {
			if l.full && !named[c.Name] && !mirrored[[2]string{l.host, c.Name}] {
				continue
			}
			w, ok := n.wishFor(l.host, c.Name)
			exact := w.Host == l.host && w.Channel == c.Name
			if !ok || c.Closed && !exact && !mirrored[[2]string{l.host, c.Name}] {
				continue // a pattern is for what there is to have; who names it is told why not
			}
			n.bind(l, c, w)
		}
	}
	for _, l := range n.links {
		n.endGone(l)
	}
}

// endGone ends the subscriptions to what the peer of l does not offer any more.
func (n *Node) endGone(l *link) {
	for id, m := range l.subs {
		if _, ok := l.catalog[m.channel]; !ok {
			n.unsubscribe(l, id)
			m.unbind(status.CauseNoChannel, fmt.Sprintf("%s does not offer %s now", m.host, m.channel))
		}
	}
}

// wishes are those that were asked for and those of the configuration.
func (n *Node) wishes() []rule.Mirror {
	return slices.DeleteFunc(slices.Concat(n.asked, n.cfg.Mirrors), func(w rule.Mirror) bool { return w.Deny })
}

// without returns list less what is meant; list stays as it is.
func without(list []rule.Mirror, is func(rule.Mirror) bool) []rule.Mirror {
	return slices.DeleteFunc(slices.Clone(list), is)
}

// Wish returns the wish because of which the node mirrors a channel of a host:
// a rule, one that was asked for, or a push. Denied ones have none.
func (n *Node) Wish(host, channel string) (w rule.Mirror, ok bool) {
	n.call(func() { w, ok = n.wishFor(host, channel) })
	return w, ok
}

// wishFor returns the wish that covers a channel of a host, unless a rule denies
// it. Of the configuration the first rule that matches counts. A wish for
// exactly this channel goes before what the host pushes, and that before
// patterns; among either, what was asked for goes before the configuration. Who
// looks at a channel for a while comes last.
func (n *Node) wishFor(host, channel string) (rule.Mirror, bool) {
	if _, no := n.cfg.Mirrors.Denial(host, channel); no {
		return rule.Mirror{}, false
	}
	exactly := func(w rule.Mirror) bool { return w.Host == host && w.Channel == channel }
	covers := func(w rule.Mirror) bool { return !w.Deny && w.Covers(host, channel) }
	found, ruled := n.cfg.Mirrors.For(host, channel)
	if w, ok := firstOf(n.asked, exactly); ok {
		return w, true
	}
	if ruled && exactly(found) {
		return found, true
	}
	if w, ok := firstOf(n.pushed(), exactly); ok {
		return w, true
	}
	if w, ok := firstOf(n.asked, covers); ok {
		return w, true
	}
	if ruled {
		return found, true
	}
	return n.peekFor(host, channel)
}

func firstOf[T any](list []T, is func(T) bool) (first T, ok bool) {
	i := slices.IndexFunc(list, is)
	if i < 0 {
		return first, false
	}
	return list[i], true
}

// pushed are the wishes that the peers' pushes have made here.
func (n *Node) pushed() []rule.Mirror {
	var list []rule.Mirror
	for _, l := range n.links {
		for _, p := range l.pushed {
			list = append(list, p.Mirror)
		}
	}
	return list
}

// bind subscribes the mirror that w wishes for to channel c of l's peer, unless it
// is already.
func (n *Node) bind(l *link, c wire.Channel, w rule.Mirror) {
	name := w.Name(l.host, c.Name)
	m := n.mirrors[name]
	if m == nil && n.ending[name] {
		return // the safe frame of the former one goes before
	}
	if m == nil {
		if why := n.roomForMirror(l, w.Host == l.host && w.Channel == c.Name); why != "" {
			if !l.full {
				l.refusal("mirror refused", status.Event{Channel: c.Name, Text: why})
			}
			l.full = true
			return
		}
		n.mirrorsOf[l.host]++
		n.made++
		m = &mirror{
			id: n.made, name: name, host: l.host, channel: c.Name, qos: w.QoS, mode: w.FileMode,
			dir: n.cfg.Dir, space: n.space, adopt: n.cfg.Adopt, log: n.log, events: &n.events, spawn: n.work.Go, clock: n.clock,
			peek: strings.HasPrefix(name, n.peekNames()),
		}
		n.mirrors[name] = m
	}
	switch {
	case m.host != l.host || m.channel != c.Name:
		n.rival(m, l, c)
		return
	case m.link != nil && m.link != l && (l.silent || !m.link.silent):
		return // a second path to the same host
	case m.link == nil && m.barred == (barred{c.Epoch, w.QoS}):
		return // it would be refused again
	case m.link == l && m.origin.Epoch == c.Epoch && !m.requalify(l, w.QoS):
		return
	case c.Origin != nil && c.Origin.Node == n.cfg.Node:
		m.loop(l, status.CauseLoop, "loop: it is a channel of this host that "+l.host+" mirrors")
		return
	}
	if twin := n.twinOf(m, c); twin != nil {
		m.loop(l, status.CauseRule, "it is mirrored here already, as "+twin.name)
		return
	}
	if m.link != nil {
		n.unsubscribe(m.link, m.subID)
	}
	if n.now() < m.retry && m.origin.Epoch == c.Epoch {
		return
	}
	m.origin = c
	if err := n.openMirror(m, l, c, w.QoS); err != nil {
		n.noFile(l, m, err)
		return
	}
	l.lastID++
	m.link, m.subID = l, l.lastID
	m.from = sourceOf(l, c)
	if c.Origin == nil {
		n.endDetours(m)
	}
	n.changed = true // the mirror may be offered again from now on
	l.subs[m.subID] = m
	m.changeClock(l.run)
	n.adopted(m)
	have, counted := m.expect(c.Epoch, w.QoS)
	in := &inbound{m: m, epoch: c.Epoch, have: have, limit: largestFrame(c)}
	m.feedFrom(in)
	m.hush(l.silent)
	m.watchDeadline()
	l.setInbound(m.subID, in)
	l.send(wire.Subscribe{ID: m.subID, Channel: c.Name, Epoch: c.Epoch, HaveSeq: have, QoS: w.QoS.Wire(), Held: counted.ToWire(m.id)})
}

// requalify gives a running subscription another quality of service. It reports
// whether the mirror has to subscribe anew for it.
func (m *mirror) requalify(l *link, qos rule.QoS) (anew bool) {
	m.mu.Lock()
	before := m.qos
	if before.Mode == qos.Mode {
		m.qos = qos
	}
	m.mu.Unlock()
	if before.Mode == qos.Mode && before.Meta != qos.Meta && m.accompany(qos.Meta) != nil {
		return true // it says why there
	}
	m.watchDeadline()
	if before.Wire() != qos.Wire() && before.Mode == qos.Mode {
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
	l.refusal("two channels want the same mirror", status.Event{Channel: c.Name, Mirror: m.name, Text: m.host + "/" + m.channel + " has it; give " + other + " another name with --as"})
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

// endDetours ends the mirrors to which the frames of m came by way of others,
// before they came directly.
func (n *Node) endDetours(m *mirror) {
	for _, other := range n.mirrors {
		if other != m && other.from == m.from && other.link != nil {
			l := other.link
			n.unsubscribe(l, other.subID)
			other.loop(l, status.CauseRule, "it is mirrored here already, as "+m.name)
		}
	}
}

func (n *Node) openMirror(m *mirror, l *link, c wire.Channel, qos rule.QoS) error {
	origin := [16]byte(l.peer)
	if c.Origin != nil {
		origin = c.Origin.Node
	}
	host := n.broughtBy(l.host, c.Name)
	if err := l.mayAssemble(c, host); err != nil {
		return err
	}
	m.countFor(host)
	if err := m.open(c, origin); err != nil {
		return err
	}
	return m.accompany(qos.Meta)
}

// broughtBy is the host of a channel, or "" if somebody here names it: what a pattern
// covers, or the host pushes, is as large as the host says.
func (n *Node) broughtBy(host, channel string) string {
	names := func(w rule.Mirror) bool { return w.Host == host && w.Channel == channel }
	if _, looked := n.peekFor(host, channel); looked || slices.ContainsFunc(n.wishes(), names) {
		return ""
	}
	return host
}

// retryFile is how long after a file could not be made it is tried again.
const retryFile = 500 * time.Millisecond

// noFile notes that there can be no file for m's frames now, and tells it when that
// begins.
func (n *Node) noFile(l *link, m *mirror, err error) {
	if m.retry == 0 {
		l.refusal("mirror refused", status.Event{Channel: m.channel, Mirror: m.name, Text: err.Error()})
	}
	m.retry = n.now() + retryFile
	m.refuse(causeOf(err), err.Error())
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
			m.parting = false
			continue
		}
		if fate == Keep && n.part(m) {
			continue
		}
		if m.link != nil {
			n.unsubscribe(m.link, m.subID)
		}
		if m.peek {
			_ = m.remove() // nobody is to wait for an answer
		} else if fate == Remove {
			errs = append(errs, m.remove())
		}
		later := func() {
			n.post(func() { delete(n.ending, name); n.changed = true })
		}
		if !m.close(later) {
			n.ending[name] = true
		}
		delete(n.mirrors, name)
		if n.mirrorsOf[m.host]--; n.mirrorsOf[m.host] == 0 {
			delete(n.mirrorsOf, m.host)
		}
		for _, l := range n.links {
			l.full = false
		}
		n.adopted(m)
	}
	return errors.Join(errs...)
}

// barred is what an origin's rules have refused us, and would again.
type barred struct {
	epoch uint64
	qos   rule.QoS
}

// unbar has channels asked for again that l's peer names anew: its rules may have
// changed. It looks at each mirror once, however many channels there are.
func (n *Node) unbar(l *link, named []wire.Channel) {
	names := make(map[string]bool, len(named))
	for _, c := range named {
		names[c.Name] = true
	}
	for _, m := range n.mirrors {
		if m.host == l.host && names[m.channel] {
			m.barred = barred{}
		}
	}
}

func (n *Node) stillWanted(m *mirror) bool {
	w, ok := n.wishFor(m.host, m.channel)
	return ok && w.Name(m.host, m.channel) == m.name
}
