package bridge

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"achbridge/bridge/hubway"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/localach"
	"achbridge/wire"
)

// handle handles a control message of the peer. An error ends the link.
func (n *Node) handle(l *link, m wire.Message) error {
	if l.lifecycle.phase == linkEnded {
		return nil
	}
	hello, isHello := m.(wire.Hello)
	switch {
	case isHello && l.hello.isReceived:
		return unwelcome(l.host + " says Hello twice")
	case isHello:
		return n.hello(l, hello)
	case !l.hello.isReceived:
		return unwelcome(l.host + " did not begin with Hello")
	}
	switch m := m.(type) {
	case wire.Catalog:
		n.catalog(l, m)
	case wire.Subscribe:
		n.subscribe(l, m)
	case wire.Unsubscribe:
		l.exports.drop(m.ID)
	case wire.Update:
		n.update(l, m)
	case wire.Counters:
		l.receiveCounters(m)
	case wire.Subscribed:
		n.subscribed(l, m)
	case wire.Offer:
		n.offer(l, m)
	case wire.Accepted:
		if !l.answered(m.ID, m) {
			n.pushes.answered(l, m.ID, "", "")
		}
	case wire.Refused:
		n.refused(l, m)
	case wire.Revocations:
		return l.revocations(n.cfg.Endpoint, m)
	case wire.Load:
		n.loadAsked(l, m)
	case wire.Query:
		n.query(l, m)
	case wire.Describe:
		n.describe(l, m)
	case wire.Layout:
		l.layout(m)
	case wire.Key:
		n.keyed(l, m)
	case wire.Newest:
		l.namedNewest(m)
	case wire.Take, wire.Release, wire.HolderQuery:
		n.lockAsked(l, m)
	case wire.Holder:
		n.receiveHolder(l, m)
	case wire.Edit:
		n.editAsked(l, m)
	case wire.Edited:
		l.answered(m.ID, m)
	case wire.Pulled:
		l.pulled(m)
	case wire.Bye:
		return fmt.Errorf("%w: %s", errBye, m.Reason)
	}
	return nil // unknown messages are for later versions
}

var errBye = errors.New("the peer said goodbye")

func (n *Node) hello(l *link, m wire.Hello) error {
	if m.Version != wire.Version {
		return unwelcome(fmt.Sprintf("%s speaks version %d of the protocol, %s speaks %d: update the older one", n.cfg.Host, wire.Version, l.host, m.Version))
	}
	if trust.NodeID(m.Node) != l.peer {
		return unwelcome(fmt.Sprintf("%s calls itself node %x, but its certificate says %s", l.host, m.Node, l.peer))
	}
	if m.Host != l.s.Peer().Host {
		return unwelcome(fmt.Sprintf("%s calls itself host %s, but its certificate says %s", l.host, m.Host, l.s.Peer().Host))
	}
	l.hello.isReceived, l.hello.run, l.hello.machine, l.hello.start = true, m.Run, Machine{m.Machine, m.Boot}, m.Start
	l.hello.knowsLocks, l.hello.knowsEdits = m.Locks, m.Edits
	l.askStamp(n.now())
	n.challenge(l)
	if n.links[l.peer] == l {
		n.machines.recognize(l)
	}
	n.loop.changed() // pushes are offered only after the Hello
	return nil
}

func (n *Node) catalog(l *link, m wire.Catalog) {
	if l.catalog.remote.channels == nil || m.Full {
		l.catalog.remote.reset()
	}
	n.mirrors.unbar(l.host, slices.DeleteFunc(slices.Clone(m.Channels), l.isClockOnly))
	l.learn(m.Channels, n.requests.named(l.host))
	for _, name := range m.Gone {
		l.catalog.remote.remove(name)
	}
	if len(m.Gone) > 0 {
		l.endGone() // at once, since the next message may offer the same channels again
	}
	n.loop.changed()
}

// subscribe starts to send a channel to the peer.
func (n *Node) subscribe(l *link, m wire.Subscribe) {
	local := n.readable(l, m.Channel)
	if local == nil {
		code, text := n.withheld(l, m.Channel)
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeSubscribe, Code: code, Text: wire.Text(text)})
		return
	}
	asked, err := rule.QoSFromWire(m.QoS)
	if err != nil {
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeSubscribe, Code: wire.CodeFailed, Text: wire.Text(fmt.Sprintf("%s: %v", m.Channel, err))})
		return
	}
	qos, err := n.permit(l, m.Channel, asked)
	if err != nil {
		l.forbid(m.ID, m.Channel, err)
		return
	}
	ch := local.Ring
	if m.Epoch != ch.Epoch() {
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeSubscribe, Code: wire.CodeEpoch, Text: m.Channel + ": the channel was made again"})
		return
	}
	if !l.mayRead(m) {
		l.refusal("subscription of a peer refused", status.Event{Channel: m.Channel, Text: "it has too many"})
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeSubscribe, Code: wire.CodeLimit,
			Text: wire.Text(fmt.Sprintf("%s: %s lets one host read %d channels", m.Channel, n.cfg.Host, maxSubscriptions))})
		return
	}
	if l.overHub() {
		if why := n.shared.publishers.Refuses(hubPeer{l}, m.Channel, qos); why != nil {
			l.forbid(m.ID, m.Channel, why)
			return
		}
	}
	if qos.Class == rule.Command {
		n.machines.use(l)
	}
	last, g := ch.LastSeq(), ch.Geometry()
	l.send(wire.Subscribed{ID: m.ID, Epoch: m.Epoch, LastSeq: last, FrameCount: g.FrameCount, FrameSize: g.FrameSize})
	if m.HaveSeq > last {
		return // the peer's mirror holds a frame of an earlier epoch; the peer subscribes again
	}
	l.addExport(m, permitted{asked, qos}, local)
}

// update changes the quality of service of a subscription of the peer. If m.Owed is set, the
// peer's mirror lacks the newest frame, and update sends it again.
func (n *Node) update(l *link, m wire.Update) {
	qos, err := rule.QoSFromWire(m.QoS)
	if err != nil {
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeSubscribe, Code: wire.CodeFailed, Text: wire.Text(err.Error())})
		return
	}
	x := l.exports.byID[m.ID]
	if x == nil || qos.Mode != x.qos.Mode {
		return
	}
	granted, err := n.permit(l, x.channel, qos)
	if err == nil && l.overHub() {
		err = n.shared.publishers.Refuses(hubPeer{l}, x.channel, granted)
	}
	if err != nil {
		l.forbid(m.ID, x.channel, err)
		l.exports.drop(m.ID)
		return
	}
	if granted.Class == rule.Command {
		n.machines.use(l)
	}
	x.requalify(permitted{qos, granted})
	if m.LastValue {
		x.Resend(m.HaveSeq)
	}
}

// requalify changes the quality of service of an export.
func (x *export) requalify(p permitted) {
	x.Requalify(p.granted)
	x.requested, x.qos = p.requested, p.granted
}

// subscribed handles the answer to one of our subscriptions. If the mirror has a later frame than
// the origin has ever put, the channel was reset while nobody was subscribed. The node then
// subscribes again from the beginning.
func (n *Node) subscribed(l *link, m wire.Subscribed) {
	in := l.inbound[m.ID]
	if in == nil {
		return
	}
	in.last = m.LastSeq
	ok, err := in.m.Begin(m.Epoch, m.LastSeq, in.have)
	if ok {
		in.m.retry = 0
		return
	}
	l.unsubscribe(m.ID)
	if err != nil {
		n.noFile(l, in.m, err)
		return
	}
	in.m.origin.Epoch = 0
	n.loop.changed()
}

func (n *Node) refused(l *link, m wire.Refused) {
	switch m.Re {
	case wire.TypeSubscribe:
		in := l.inbound[m.ID]
		if in == nil {
			return
		}
		l.unsubscribe(m.ID)
		in.m.retry = 0
		if m.Code == wire.CodeEpoch {
			n.loop.changed() // the catalog with the new epoch follows
			return
		}
		if m.Code == wire.CodeForbidden || m.Code == wire.CodeMachine || m.Code == wire.CodeLimit {
			in.m.bar(in.Feed.Epoch)
		}
		in.m.RefusedBy(l.host, causeOfRefusal(m), fmt.Sprintf("%s refuses: %s", l.host, m.Text))
		l.refusal("subscription refused", status.Event{Channel: in.m.Channel, Mirror: in.m.Name, Text: m.Text})
	case wire.TypeOffer:
		n.pushes.answered(l, m.ID, m.Text, causeOfRefusal(m))
	case wire.TypeLoad, wire.TypeQuery, wire.TypeTake, wire.TypeRelease, wire.TypeHolderQuery, wire.TypeEdit:
		l.answered(m.ID, m)
	case wire.TypeDescribe:
		l.layouts.requests.Refuse(time.Now(), m)
	case wire.TypeHello:
		if m.Code == wire.CodeCopied {
			n.machines.foundOwnCopy(l, m.Text)
		}
	}
}

// causeOf returns the status cause of an error, "" for nil.
func causeOf(err error) status.Cause {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, trust.ErrRevoked):
		return status.CauseRevoked
	case errors.Is(err, trust.ErrNotNow):
		return status.CauseCertificate
	case errors.Is(err, trust.ErrWrongKey):
		return status.CauseKey
	case errors.Is(err, session.ErrSilent):
		return status.CausePeerSilent
	case errors.Is(err, localach.ErrHole), errors.Is(err, ring.ErrTooLarge):
		return status.CauseBadFrame
	case errors.Is(err, errTooMuch), errors.Is(err, ring.ErrNoMemory), errors.Is(err, hubway.ErrTooLarge):
		return status.CauseLimit
	case errors.Is(err, errMachine):
		return status.CauseOtherMachine
	}
	return mirror.CauseOf(err)
}

// causeOfRefusal returns the status cause of a peer's refusal.
func causeOfRefusal(m wire.Refused) status.Cause {
	if m.Code == wire.CodeForbidden && m.Re == wire.TypeOffer {
		return status.CauseAcceptRule
	}
	switch m.Code {
	case wire.CodeAbsent:
		return status.CauseNoChannel
	case wire.CodeLoop:
		return status.CauseLoop
	case wire.CodeMachine:
		return status.CauseOtherMachine
	case wire.CodeConflict:
		return status.CauseRule
	case wire.CodeHeld:
		return status.CauseOperator
	}
	for cause, code := range refusalCodes {
		if code == m.Code {
			return cause
		}
	}
	return status.CauseOther
}
