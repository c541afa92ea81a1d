package bridge

import (
	"errors"
	"strings"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// binding is a mirror, with the link and the subscription by which the node feeds it. But
// for the mirror it belongs to the node's goroutine.
type binding struct {
	*mirror.Mirror
	id     uint32 // among all the mirrors of this run of the daemon
	link   *link  // that feeds it now
	subID  uint32
	origin wire.Channel // as the link's catalog has it
	from   source       // zero before the first subscription
	retry  time.Duration
	barred barred          // what the origin's rules refuse
	rivals map[string]bool // channels that wanted this name too, and were named in the log
	looked time.Duration   // when trouble with the file was last dealt with; 0: never
	asked  uint64          // frame that was asked for then
	wait   time.Duration   // until it is asked for again
	teller ledger.Teller
	// parting: nobody wants it any more, and it stays until its safe frame is put
	parting bool
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
		m = &binding{id: n.made, Mirror: mirror.New(mirror.Config{
			Name: name, Host: l.host, Channel: c.Name, Temporary: strings.HasPrefix(name, n.peekNames()),
			Dir: n.cfg.Dir, Mode: w.FileMode, Space: n.space, Log: n.log, Events: &n.events, Spawn: n.work.Go, Clock: n.clock,
		}, w.QoS, n.cfg.Adopt)}
		n.mirrors[name] = m
	}
	switch {
	case m.Host != l.host || m.Channel != c.Name:
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
		m.loop(l, status.CauseRule, "it is mirrored here already, as "+twin.Name)
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
	n.adopted(m)
	in := &inbound{m: m, feed: mirror.Feed{Epoch: c.Epoch, Run: l.run}, limit: mirror.LargestFrame(c)}
	have, counted := m.Subscribe(&in.feed, w.QoS, l.silent)
	in.have = have
	l.setInbound(m.subID, in)
	l.send(wire.Subscribe{ID: m.subID, Channel: c.Name, Epoch: c.Epoch, HaveSeq: have, QoS: w.QoS.Wire(), Held: counted.ToWire(m.id)})
}

// requalify gives a running subscription another quality of service. It reports
// whether the mirror has to subscribe anew for it.
func (m *binding) requalify(l *link, qos rule.QoS) (anew bool) {
	anew, tell := m.Mirror.Requalify(qos)
	if tell {
		l.send(m.update(false))
	}
	return anew
}

// update tells the origin the quality of service of the subscription and what
// the mirror holds; owed asks for the newest frame once more.
func (m *binding) update(owed bool) wire.Update {
	qos, have := m.Holds()
	return wire.Update{ID: m.subID, QoS: qos.Wire(), HaveSeq: have, Owed: owed}
}

// loop refuses a mirror whose frames would come here twice, or come round, by l.
func (m *binding) loop(l *link, cause status.Cause, reason string) {
	if m.Refuse(cause, reason) {
		l.warn("mirror refused: it comes round", status.Event{Kind: status.EventLoop, Channel: m.Channel, Mirror: m.Name, Text: reason}, "cause", reason)
	}
}

// bar remembers that the origin's rules refuse the mirror as it is asked for.
func (m *binding) bar(epoch uint64) {
	qos, _ := m.Holds()
	m.barred = barred{epoch, qos}
}

// unbind says that nobody feeds the mirror now.
func (m *binding) unbind(cause status.Cause, reason string) {
	m.link = nil
	m.Unfed(cause, reason)
}

// reading is what the link that feeds the mirror knows of its host's clock, if there is one.
func (m *binding) reading(now time.Duration) mirror.Reading {
	if m.link == nil {
		return mirror.Reading{}
	}
	return m.link.clockAt(now)
}

// rival names a channel whose mirror would have a name that is taken, once.
func (n *Node) rival(m *binding, l *link, c wire.Channel) {
	other := l.host + "/" + c.Name
	if m.rivals[other] {
		return
	}
	if m.rivals == nil {
		m.rivals = make(map[string]bool)
	}
	m.rivals[other] = true
	l.refusal("two channels want the same mirror", status.Event{Channel: c.Name, Mirror: m.Name, Text: m.Host + "/" + m.Channel + " has it; give " + other + " another name with --as"})
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
func (n *Node) twinOf(m *binding, c wire.Channel) *binding {
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
func (n *Node) endDetours(m *binding) {
	for _, other := range n.mirrors {
		if other != m && other.from == m.from && other.link != nil {
			l := other.link
			n.unsubscribe(l, other.subID)
			other.loop(l, status.CauseRule, "it is mirrored here already, as "+m.Name)
		}
	}
}

func (n *Node) openMirror(m *binding, l *link, c wire.Channel, qos rule.QoS) error {
	origin := [16]byte(l.peer)
	if c.Origin != nil {
		origin = c.Origin.Node
	}
	host := n.broughtBy(l.host, c.Name)
	if err := l.mayAssemble(c, host); err != nil {
		return err
	}
	return m.Open(c, origin, host, qos.Meta)
}

// retryFile is how long after a file could not be made it is tried again.
const retryFile = 500 * time.Millisecond

// noFile notes that there can be no file for m's frames now, and tells it when that
// begins.
func (n *Node) noFile(l *link, m *binding, err error) {
	if m.retry == 0 {
		l.refusal("mirror refused", status.Event{Channel: m.Channel, Mirror: m.Name, Text: err.Error()})
	}
	m.retry = n.now() + retryFile
	m.Refuse(causeOf(err), err.Error())
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
func (n *Node) dropUnwanted(policy FilePolicy) error {
	var errs []error
	for name, m := range n.mirrors {
		if n.stillWanted(m) {
			m.parting = false
			continue
		}
		if policy == Keep && n.part(m) {
			continue
		}
		if m.link != nil {
			n.unsubscribe(m.link, m.subID)
		}
		if m.Temporary {
			_ = m.Remove() // nobody is to wait for an answer
		} else if policy == Remove {
			errs = append(errs, m.Remove())
		}
		later := func() {
			n.post(func() { delete(n.ending, name); n.changed = true })
		}
		if !m.Close(later) {
			n.ending[name] = true
		}
		delete(n.mirrors, name)
		if n.mirrorsOf[m.Host]--; n.mirrorsOf[m.Host] == 0 {
			delete(n.mirrorsOf, m.Host)
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
		if m.Host == l.host && names[m.Channel] {
			m.barred = barred{}
		}
	}
}

// lookAgain is how soon a mirror whose file is in trouble, or lacks the newest
// frame, asks its origin again; for the same frame each time after twice as
// long, up to lookSeldom, since it may never fit.
const (
	lookAgain  = time.Second
	lookSeldom = time.Minute
)

// mirrorLook heals what happened to a mirror's file behind our back: removed,
// damaged, its waiters wedged. The newest frame is asked for again when the
// file does not hold it: nothing newer may ever come.
func (n *Node) mirrorLook(m *binding) {
	l := m.link
	m.Tend(m.reading(n.now()))
	if l == nil {
		if m.retry != 0 && n.now() >= m.retry || m.parting {
			n.changed = true
		}
		return
	}
	seq, owed, err := m.Look()
	wait := lookAgain
	if owed && seq == m.asked {
		wait = m.wait
	}
	soon := m.looked != 0 && n.now() < m.looked+wait
	if err == nil && !owed || soon {
		return
	}
	if err != nil {
		n.log.Warn("mirror's file is not usable any more", "channel", m.Name, "err", err)
	}
	m.looked = n.now()
	if err == nil {
		m.asked, m.wait = seq, min(2*wait, lookSeldom)
		l.send(m.update(true))
		return
	}
	n.unsubscribe(l, m.subID)
	n.changed = true
}
