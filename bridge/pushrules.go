package bridge

import (
	"slices"
)

// Pushes are rules in their order: those that deny are looked at first, then the
// first that matches counts.
type Pushes []Push

// Denial returns the rule that says that a channel is not pushed to a host.
func (ps Pushes) Denial(channel, host string) (Push, bool) {
	return firstOf(ps, func(r Push) bool { return r.Deny && match(r.Channel, channel) && match(r.Host, host) })
}

// For returns the rule by which a channel is pushed to a host, if there is one and
// none denies it.
func (ps Pushes) For(channel, host string) (Push, bool) {
	if _, no := ps.Denial(channel, host); no {
		return Push{}, false
	}
	return firstOf(ps, func(r Push) bool { return !r.Deny && r.Host == host && match(r.Channel, channel) })
}

// planPushes makes the pushes those that the configuration's rules ask for, as
// far as their channels are known, and those that were asked for otherwise.
func (n *Node) planPushes() {
	n.pushes = slices.DeleteFunc(n.pushes, func(p *push) bool {
		rule, wanted := n.cfg.Pushes.For(p.Channel, p.Host)
		if p.asked || wanted && rule.name() == p.name() {
			return false
		}
		n.withdraw(p)
		return true
	})
	for _, rule := range n.cfg.Pushes {
		if !rule.Deny && !isPattern(rule.Channel) {
			n.planPush(rule.Channel)
		}
	}
	for name := range n.locals {
		n.planPush(name)
	}
}

// planPush makes the pushes of one channel that rules ask for and that are not
// there yet.
func (n *Node) planPush(channel string) {
	for _, rule := range n.cfg.Pushes {
		p, ok := n.cfg.Pushes.For(channel, rule.Host)
		if !ok || isPattern(p.Channel) && n.isMirror(channel) {
			continue
		}
		p = Push{Channel: channel, Host: p.Host, As: expand(p.As, "", channel), QoS: p.QoS, From: p.From}
		known, ok := firstOf(n.pushes, func(known *push) bool { return known.Same(p) })
		switch {
		case !ok:
			n.pushes = append(n.pushes, &push{Push: p, state: stateWaiting})
		case !known.asked && known.QoS != p.QoS:
			known.link = nil // it is offered anew
			fallthrough
		case !known.asked:
			known.Push = p
		}
	}
}

// unplanPush takes the pushes of a channel away that only a pattern asks for: it
// is gone, or a mirror.
func (n *Node) unplanPush(channel string) {
	n.pushes = slices.DeleteFunc(n.pushes, func(p *push) bool {
		rule, _ := n.cfg.Pushes.For(channel, p.Host)
		if p.Channel != channel || p.asked || !isPattern(rule.Channel) {
			return false
		}
		n.withdraw(p)
		return true
	})
}

// isMirror reports whether a channel is one that a pattern does not push: what
// came from another host does not go on by accident.
func (n *Node) isMirror(channel string) bool {
	l := n.locals[channel]
	return n.mirrors[channel] != nil || l != nil && l.mirror
}

// withdraw ends what a push lets its peer read.
func (n *Node) withdraw(p *push) {
	if p.link != nil {
		delete(p.link.offered, p.Channel)
		n.changed = true
	}
}
