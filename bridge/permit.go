package bridge

import (
	"fmt"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// permitted is the quality of service that a peer asked for, and what it gets.
type permitted struct{ asked, granted rule.QoS }

// permit returns how l's peer may read a channel that it asks for, or why it may
// not. A channel that we push to it is the operator's own wish.
func (n *Node) permit(l *link, channel string, asked rule.QoS) (rule.QoS, error) {
	if l.offered[channel] {
		return n.limitPushed(l, channel, asked)
	}
	if err := n.cfg.Export.Denied(channel, l.host); err != nil {
		return rule.QoS{}, err
	}
	if c := n.locals[channel]; c != nil && c.mirror {
		return asked, nil // relayed
	}
	found, err := n.cfg.Export.For(channel, l.host)
	if err != nil {
		return rule.QoS{}, err
	}
	return found.Limit(asked)
}

// limitPushed lowers what l's peer asks for of a channel that is pushed to it to what
// the push allows.
func (n *Node) limitPushed(l *link, channel string, asked rule.QoS) (rule.QoS, error) {
	p, ok := firstOf(n.pushes, func(p *push) bool { return p.Host == l.host && p.Channel == channel })
	if !ok {
		return asked, nil
	}
	return rule.Grant{QoS: p.QoS, From: p.From}.Limit(asked)
}

// forbid tells the peer why it may not read a channel.
func (n *Node) forbid(l *link, id uint32, channel string, cause error) {
	l.refused[channel] = true
	l.refusal("subscription of a peer refused", status.Event{Channel: channel, Text: cause.Error()})
	l.send(wire.Refused{ID: id, Re: wire.TypeSubscribe, Code: wire.CodeForbidden,
		Text: wire.Text(fmt.Sprintf("it does not let %s read %s: %v", l.host, channel, cause))})
}

// Apply makes cfg what is wanted from now on, as if the node had been started
// with it: Export, Relay, Accept, Adopt, Mirrors and Pushes; the rest stays as it
// was. Mirrors and pushes that were asked for while the node ran stay too. An
// error changes nothing. Subscriptions that cfg leaves as they are go on
// undisturbed.
func (n *Node) Apply(cfg Config) error {
	cfg.Host = n.cfg.Host // it never changes
	if err := cfg.check(); err != nil {
		return err
	}
	cfg.settle()
	return n.change(func() error { n.apply(cfg); return nil })
}

func (n *Node) apply(cfg Config) {
	n.cfg.Export, n.cfg.Relay, n.cfg.Accept, n.cfg.Adopt = cfg.Export, cfg.Relay, cfg.Accept, cfg.Adopt
	n.cfg.Mirrors, n.cfg.Pushes = cfg.Mirrors, cfg.Pushes
	n.planPushes()
	for name := range n.locals {
		n.localChanged(name)
	}
	for _, m := range n.mirrors {
		m.SetAdopt(cfg.Adopt)
		if m.link == nil {
			m.retry = 0
		}
	}
	for _, l := range n.links {
		n.judgeExports(l)
		n.judgePushes(l)
	}
}

// judgeExports looks at what l's peer reads by rules that may have changed.
func (n *Node) judgeExports(l *link) {
	for channel := range l.refused {
		if _, err := n.permit(l, channel, rule.QoS{}); err == nil {
			delete(l.refused, channel)
			delete(l.told, channel) // named anew, it is asked for again
		}
	}
	l.mu.Lock()
	for id, e := range l.exports {
		granted, err := n.permit(l, e.channel, e.asked)
		if err != nil {
			l.dropExport(id)
			n.forbid(l, id, e.channel, err)
		} else if granted != e.qos {
			l.requalify(e, permitted{e.asked, granted})
			l.rouse(e)
		}
	}
	l.mu.Unlock()
	l.awake()
}

// judgePushes looks at what l's peer pushes, and at what it was not let.
func (n *Node) judgePushes(l *link) {
	kept := l.pushed[:0:0]
	for _, p := range l.pushed {
		wish, err := n.acceptable(l, p.offer)
		if err != nil {
			n.offer(l, p.offer) // which refuses it
			continue
		}
		kept = append(kept, pushed{wish, p.offer})
	}
	l.pushed = kept
	turned := l.turned
	l.turned = nil
	for _, m := range turned {
		if _, err := n.acceptable(l, m); err != nil {
			l.turn(m) // the peer knows
			continue
		}
		n.offer(l, m)
	}
}

// What the network's authority has revoked spreads from node to node: each tells its
// peers of the list that it has until they are known to have it, and takes a newer one
// from whoever has it. So it is enough to give a list to one node.

// tellRevocations sends the list that counts here, unless the peer has it or a newer
// one.
func (n *Node) tellRevocations(l *link) {
	list := n.cfg.Endpoint.Revocations()
	if !l.greeted || list.Number() <= l.listed {
		return
	}
	l.listed = list.Number()
	l.send(wire.Revocations{List: list.Bytes()})
}

// revocations takes the peer's list. One that nobody of ours can have signed ends the
// link.
func (n *Node) revocations(l *link, m wire.Revocations) error {
	taken, err := n.cfg.Endpoint.Revoke(m.List)
	if err != nil {
		return unwelcome(err.Error())
	}
	if taken {
		l.listed = n.cfg.Endpoint.Revocations().Number()
	}
	return nil
}
