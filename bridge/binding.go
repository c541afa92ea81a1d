package bridge

import (
	"errors"
	"time"

	"achbridge/bridge/achdway"
	"achbridge/bridge/hubway"
	"achbridge/bridge/ledger"
	"achbridge/bridge/mirror"
	"achbridge/bridge/mux"
	"achbridge/bridge/operator"
	"achbridge/bridge/rule"
	"achbridge/bridge/send"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// binding is a mirror together with the link and the subscription that feed it. The mirror has its
// own mutex; the other fields belong to the node's goroutine.
type binding struct {
	*mirror.Mirror
	id            uint32            // unique among the mirrors of this daemon process
	link          *link             // feeds the mirror; nil means that no link does
	achd          *achdway.Consumer // feeds the mirror in place of a link; nil if the host has achbridge
	mux           *mux.Mux          // feeds the mirror in place of a link, if it is the output of a mux; otherwise nil
	subID         uint32
	origin        wire.Channel // the channel in the link's catalog
	from          source       // node and channel where the frames were first put; zero before the first subscription
	retry         time.Duration
	refused       refusedRequest  // epoch and QoS that the origin's rules refused
	nameConflicts map[string]bool // channels with the same mirror name whose conflict was logged
	repairedAt    time.Duration   // when the node last repaired the file or requested its frame again; 0 means never
	lastRequested uint64          // number of the frame that the node last requested again
	wait          time.Duration   // delay before the node requests that frame again
	reporter      ledger.Reporter
	stamps        stampState     // clock of the stamps in the frames
	grant         operator.Grant // identifies the operator lock for which the mirror is fed; zero without a lock
	isPushed      bool           // a push of the host feeds the mirror
	isStopping    bool           // no request asks for the mirror any more; it stays until its safe frame is put
}

// bind subscribes the mirror that w requests to channel c of l's peer, unless it is subscribed
// already. It makes the mirror if there is none.
func (n *Node) bind(l *link, c wire.Channel, w rule.Mirror) {
	if w.Merge && n.mergeOutput(w) == nil {
		return
	}
	name := w.Name(l.host, c.Name)
	m := n.mirrors.byName[name]
	if m == nil && n.mirrors.reserved[name] {
		return // the former mirror of this name has yet to put its safe frame
	}
	if m == nil {
		if m = n.newMirror(l, c.Name, w); m == nil {
			return
		}
	}
	switch {
	case m.Host != l.host || m.Channel != c.Name:
		m.nameConflict(&l.warned.limit, rule.Address{Host: l.host, Channel: c.Name})
		return
	case m.link != nil && m.link != l && (l.isInSilence() || !m.link.isInSilence()):
		return // l is a second route to the same host
	case m.link == nil && m.refused == (refusedRequest{c.Epoch, w.QoS}):
		return // the origin would refuse it again
	case m.link == l && m.origin.Epoch == c.Epoch && !m.requalify(l, w.QoS) && n.isCurrent(m, l, c, w.QoS):
		return
	case c.Origin != nil && c.Origin.Node == n.cfg.Node:
		m.loop(l, status.CauseLoop, "loop: it is a channel of this host that "+l.host+" mirrors")
		return
	case w.Merge && c.Origin != nil:
		m.loop(l, status.CauseRule, "a merge takes only channels of the hosts themselves, not mirrors of other hosts: name "+c.Origin.Host+" in its rule")
		return
	case l.overHub() && w.QoS.Mode == rule.Every:
		if m.link == l {
			l.unsubscribe(m.subID)
			m.link = nil
		}
		if why := "mode every needs a direct link to " + l.host + ": a hub keeps only the newest frame"; m.Refuse(status.CauseRule, why) {
			l.refusal("mirror refused", status.Event{Channel: m.Channel, Mirror: m.Name, Text: why})
		}
		return
	}
	if duplicate := n.mirrors.duplicateOf(m, c); duplicate != nil {
		m.loop(l, status.CauseRule, "it is mirrored here already, as "+duplicate.Name)
		return
	}
	right, ok := n.rightFor(l, name, w)
	if !ok {
		return
	}
	if m.link != nil {
		m.link.unsubscribe(m.subID)
	}
	if n.now() < m.retry && m.origin.Epoch == c.Epoch {
		return
	}
	m.origin = c
	stamps, state, err := n.stampSource(m, l, c, w.QoS)
	if err == nil {
		err = n.openMirror(m, l, c, w.QoS)
	}
	if err == nil && right.Grant != m.grant && right.Grant != (operator.Grant{}) && m.PutSafe() {
		err = errSafeFrame // the newest frame may be a command of another holder, before a restart of this daemon
	}
	if err != nil {
		n.noFile(l, m, err)
		return
	}
	n.setStamps(m, state)
	l.queries.lastID++
	m.link, m.subID = l, l.queries.lastID
	m.grant, m.isPushed = right.Grant, l.hasPushed(w)
	m.Permit(right)
	m.from = sourceOf(l, c)
	if c.Origin == nil {
		n.endIndirect(m)
	}
	n.loop.changed() // a relay rule may offer the mirror to peers from now on
	n.adopted(m)
	in := &inbound{m: m, Inbound: send.Inbound{Mirror: m.Mirror, Feed: mirror.Feed{Epoch: c.Epoch, Run: l.hello.run, Silent: l.isInSilence(), Stamps: stamps, Grant: right.Grant}, Limit: mirror.LargestFrame(c)}}
	have, counted := m.Subscribe(&in.Feed, w.QoS)
	in.have = have
	l.inbound[m.subID] = in
	l.frames.AddInbound(m.subID, &in.Inbound)
	l.send(wire.Subscribe{ID: m.subID, Channel: c.Name, Epoch: c.Epoch, HaveSeq: have, QoS: w.QoS.Wire(), Held: counted.ToWire(m.id)})
}

// newMirror makes the mirror that w requests. It returns nil if a limit is reached.
func (n *Node) newMirror(l *link, channel string, w rule.Mirror) *binding {
	if why := n.mirrors.noRoom(l.host, channel, w); why != "" {
		if !l.warned.full {
			l.refusal("mirror refused", status.Event{Channel: channel, Text: why})
		}
		l.warned.full = true
		return nil
	}
	return n.mirrors.add(l.host, channel, w)
}

// requalify changes the quality of service of a running subscription. It returns true if the
// change needs a new subscription.
func (m *binding) requalify(l *link, qos rule.QoS) (anew bool) {
	anew, mustSend := m.Mirror.Requalify(qos)
	if mustSend {
		l.send(m.update())
	}
	return anew
}

// update returns a message for the origin with the subscription's quality of service and the
// newest frame that the mirror holds.
func (m *binding) update() wire.Update {
	qos, have := m.Holds()
	return wire.Update{ID: m.subID, QoS: qos.Wire(), HaveSeq: have}
}

// loop refuses a mirror on l whose frames already arrive here by another route, or whose origin is
// this host.
func (m *binding) loop(l *link, cause status.Cause, reason string) {
	if m.Refuse(cause, reason) {
		l.warn("mirror refused: it comes round", status.Event{Kind: status.EventLoop, Channel: m.Channel, Mirror: m.Name, Text: reason}, "cause", reason)
	}
}

// bar records that the origin's rules refuse this epoch of the channel with the current quality of
// service.
func (m *binding) bar(epoch uint64) {
	qos, _ := m.Holds()
	m.refused = refusedRequest{epoch, qos}
}

// unbind records that no link feeds the mirror any more, and the cause.
func (m *binding) unbind(cause status.Cause, reason string) {
	m.link = nil
	m.Unfed(cause, reason)
}

// reading returns the state of the origin's clock as measured by the link that feeds the mirror.
// Without such a link the clock is unknown. suspended is the total time for which this host was suspended.
func (m *binding) reading(now, suspended time.Duration) mirror.Reading {
	if m.link == nil {
		return mirror.Reading{Now: now, Suspended: suspended}
	}
	return m.link.frames.ReadClock(now)
}

// nameConflict logs, once for each channel, that another mirror already has the name.
func (m *binding) nameConflict(warnings *warner, of rule.Address) {
	other := of.String()
	if m.nameConflicts[other] {
		return
	}
	if m.nameConflicts == nil {
		m.nameConflicts = make(map[string]bool)
	}
	m.nameConflicts[other] = true
	text := m.Host + "/" + m.Channel + " has it; give " + other + " another name with --as"
	warnings.warn("two channels want the same mirror", status.Event{Kind: status.EventRefused, Host: of.Host, Channel: of.Channel, Mirror: m.Name, Text: text}, "cause", text)
}

// source identifies the node and the channel where frames were first put.
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

// endIndirect ends the mirrors that receive the frames of m's source through other hosts, since m
// now receives them directly.
func (n *Node) endIndirect(m *binding) {
	for _, other := range n.mirrors.byName {
		if other != m && other.from == m.from && other.link != nil {
			l := other.link
			l.unsubscribe(other.subID)
			other.loop(l, status.CauseRule, "it is mirrored here already, as "+m.Name)
		}
	}
}

func (n *Node) openMirror(m *binding, l *link, c wire.Channel, qos rule.QoS) error {
	origin := [16]byte(l.peer)
	if c.Origin != nil {
		origin = c.Origin.Node
	}
	host := n.requests.broughtBy(l.host, c.Name)
	if err := l.mayAssemble(c, host); err != nil {
		return err
	}
	if m.Into != nil {
		if err := m.Into.Open(c, n.cfg.Node, host, rule.MergeQoS()); err != nil {
			return err
		}
	}
	return m.Open(c, origin, host, qos)
}

// retryFile is the delay before the node tries again to make a mirror's file.
const retryFile = 500 * time.Millisecond

// noFile records why m's file cannot be made, and logs the first failure.
func (n *Node) noFile(l *link, m *binding, err error) {
	if m.retry == 0 {
		l.refusal("mirror refused", status.Event{Channel: m.Channel, Mirror: m.Name, Text: err.Error()})
	}
	m.retry = n.now() + retryFile
	m.Refuse(causeOf(err), err.Error())
}

// inbound is one of this node's subscriptions on a link. It belongs to the node's goroutine.
type inbound struct {
	send.Inbound
	m        *binding
	have     uint64           // HaveSeq of the Subscribe message
	last     uint64           // LastSeq of the origin's Subscribed message
	consumer *hubway.Consumer // fetches the frames from the hub; nil without a hub
}

// endInbound removes subscription id, so that no more of its frames are put into its mirror.
func (l *link) endInbound(id uint32) {
	l.frames.DropInbound(id)
	l.inbound[id].consumer.Stop()
	delete(l.inbound, id)
}

// unsubscribe ends this node's subscription id on l.
func (l *link) unsubscribe(id uint32) {
	in := l.inbound[id]
	if in == nil {
		return
	}
	m := in.m
	l.endInbound(id)
	l.send(wire.Unsubscribe{ID: id})
	if m.link == l && m.subID == id {
		m.link, m.subID = nil, 0
	}
}

// dropUnwanted ends the mirrors that no request covers.
func (n *Node) dropUnwanted(policy FilePolicy) error {
	var errs []error
	for _, m := range n.mirrors.inClosingOrder() {
		if n.requests.isFor(m.Name, m.Host, m.Channel) {
			m.isStopping = false
			continue
		}
		if policy == Keep && m.part() {
			continue
		}
		errs = append(errs, n.endMirror(m, policy))
	}
	return errors.Join(errs...)
}

// endMirror ends a mirror. If its safe frame must be put, that is done first.
func (n *Node) endMirror(m *binding, policy FilePolicy) (err error) {
	if m.link != nil {
		m.link.unsubscribe(m.subID)
	}
	m.achd.Stop()
	m.mux.Stop()
	if m.Temporary {
		_ = m.Remove() // no caller waits for the error
	} else if policy == Remove {
		err = m.Remove()
	}
	n.mirrors.remove(m, func() {
		n.loop.post(func() { n.mirrors.release(m.Name); n.loop.changed() })
	})
	for _, l := range n.links {
		l.warned.full = false
	}
	n.adopted(m)
	return err
}

// refusedRequest is an epoch and a quality of service that the origin's rules refused.
type refusedRequest struct {
	epoch uint64
	qos   rule.QoS
}
