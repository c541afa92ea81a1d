package bridge

import (
	"cmp"
	"fmt"
	"slices"

	"achbridge/bridge/achdway"
	"achbridge/bridge/locals"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// pushTable has the pushes of this host: those that rules request, and those that Node.Push has
// added. It belongs to the node's goroutine, and only its methods write it.
type pushTable struct {
	list     []*push
	rules    rule.Pushes
	channels *locals.Table
	isMirror func(channel string) bool
	changed  func() // called when the node must reconcile
}

// any reports whether is returns true for a push.
func (t *pushTable) any(is func(*push) bool) bool { return slices.ContainsFunc(t.list, is) }

// add adds a push and returns it. The peer's answer goes to answer. add returns nil if the push
// exists already, or if a rule denies it.
func (t *pushTable) add(p rule.Push, answer chan error) *push {
	if err := t.denied(p); err != nil {
		answer <- err
		return nil
	}
	known, ok := firstOf(t.list, func(known *push) bool { return known.Same(p) })
	if !ok {
		made := &push{Push: p, isAdded: true, waiters: []chan error{answer}}
		t.list = append(t.list, made)
		return made
	}
	known.isAdded = true
	known.waiters = append(known.waiters, answer)
	switch {
	case known.QoS != p.QoS || known.phase == pushRefused:
		known.renew(p)
		t.changed()
	case known.phase == pushAccepted:
		known.reply(nil)
	}
	return nil
}

// denied returns an error if a rule denies p.
func (t *pushTable) denied(p rule.Push) error {
	found, ok := t.rules.Denial(p.Channel, p.Host)
	if !ok {
		return nil
	}
	return fmt.Errorf("push %s: %s denies it", p.Channel, cmp.Or(found.From, "the configuration"))
}

// forgetWaiter removes answer from its push. From then on the push is permanent, like one of the
// configuration: a refusal does not end it.
func (t *pushTable) forgetWaiter(answer chan error) {
	for _, p := range t.list {
		p.waiters = slices.DeleteFunc(p.waiters, func(c chan error) bool { return c == answer })
	}
}

// to returns the push that allows l's peer to read a channel, nil if there is none. The push was
// offered to the peer, and the peer has not refused it.
func (t *pushTable) to(l *link, channel string) *push {
	p, _ := firstOf(t.list, func(p *push) bool { return p.link == l && p.Channel == channel && p.phase != pushRefused })
	return p
}

// due returns the pushes to offer to l's peer.
func (t *pushTable) due(l *link) (list []*push) {
	for _, p := range t.list {
		isOffered := p.link == l && p.phase != pushUnoffered
		if p.Host == l.host && l.hello.isReceived && !isOffered && t.channels.Get(p.Channel).IsOpen() {
			list = append(list, p)
		}
	}
	return list
}

// answered handles the peer's answer to an offer. reason is empty if the peer accepted.
func (t *pushTable) answered(l *link, id uint32, reason string, cause status.Cause) {
	p, ok := firstOf(t.list, func(p *push) bool { return p.link == l && p.offerID == id && p.phase != pushUnoffered })
	switch {
	case !ok:
	case reason == "":
		if p.phase == pushRefused { // the peer's rules have changed
			t.changed()
		}
		p.become(pushAccepted, "", "")
	default:
		p.become(pushRefused, reason, cause)
		if cause == status.CauseOperator { // the push waits for the lock
			p.reply(nil)
			return
		}
		l.refusal("push refused by the peer", status.Event{Channel: p.Channel, Text: reason})
		if p.reply(fmt.Errorf("push %s: %s", p.Channel, reason)) {
			t.list = slices.DeleteFunc(t.list, func(other *push) bool { return other == p })
		}
		t.changed()
	}
}

// unlink makes the pushes that were offered on l wait for another link.
func (t *pushTable) unlink(l *link) {
	for _, p := range t.list {
		if p.link == l {
			p.link = nil
			p.become(pushUnoffered, "no link to "+p.Host, status.CausePeerMissing)
		}
	}
}

// plan replaces the rules and the pushes. The new pushes are those that the rules request for
// existing channels. Pushes that Node.Push has added stay unless a rule denies them.
func (t *pushTable) plan(rules rule.Pushes) {
	t.rules = rules
	t.list = slices.DeleteFunc(t.list, func(p *push) bool {
		if err := t.denied(p.Push); err != nil {
			p.reply(err)
			t.withdraw(p)
			return true
		}
		found, wanted := t.rules.For(p.Channel, p.Host)
		if rule.IsPattern(found.Channel) && t.channels.Get(p.Channel) == nil {
			wanted = false // a pattern only requests channels that exist
		}
		if p.isAdded || wanted && found.Name(p.Channel) == p.NameThere() {
			return false
		}
		t.withdraw(p)
		return true
	})
	for _, found := range t.rules {
		if !found.Deny && !rule.IsPattern(found.Channel) {
			t.planFor(found.Channel)
		}
	}
	for name := range t.channels.All() {
		t.planFor(name)
	}
}

// planFor adds the missing pushes that the rules request for one channel.
func (t *pushTable) planFor(channel string) {
	for _, found := range t.rules {
		p, ok := t.rules.For(channel, found.Host)
		if !ok || rule.IsPattern(p.Channel) && t.isMirror(channel) {
			continue
		}
		p = rule.Push{Channel: channel, Host: p.Host, As: rule.Expand(p.As, "", channel), QoS: p.QoS, From: p.From}
		known, ok := firstOf(t.list, func(known *push) bool { return known.Same(p) })
		switch {
		case !ok:
			t.list = append(t.list, &push{Push: p})
		case known.isAdded:
		case known.QoS != p.QoS:
			known.renew(p)
		default:
			known.Push = p
		}
	}
}

// unplan removes the pushes of a channel that only a pattern requests. The channel no longer
// exists, or is a mirror.
func (t *pushTable) unplan(channel string) {
	t.list = slices.DeleteFunc(t.list, func(p *push) bool {
		found, _ := t.rules.For(channel, p.Host)
		if p.Channel != channel || p.isAdded || !rule.IsPattern(found.Channel) {
			return false
		}
		t.withdraw(p)
		return true
	})
}

// withdraw ends a push that is no longer in the table. The next catalog informs its peer.
func (t *pushTable) withdraw(p *push) {
	p.endAchd()
	if p.link != nil {
		t.changed()
	}
}

// publish sends channels to hosts with achd. It starts a push when its channel exists, and ends it
// when the channel is gone.
func (t *pushTable) publish(by *achdway.Hosts) {
	for _, p := range t.list {
		if !rule.IsAchd(p.Host) {
			continue
		}
		isOpen := t.channels.Get(p.Channel).IsOpen()
		if p.achd != nil && (!isOpen || p.achd.QoS() != p.QoS) {
			p.endAchd()
			p.become(pushUnoffered, "", "")
		}
		if isOpen && p.achd == nil {
			p.publish(by)
		}
	}
}

// status returns the status of all pushes.
func (t *pushTable) status() []status.Push {
	list := []status.Push{}
	for _, p := range t.list {
		list = append(list, status.Push{Push: p.Push, State: p.phase.state(), Reason: cmp.Or(p.reason, t.whyWaits(p)), Cause: p.cause, Unauthenticated: rule.IsAchd(p.Host)})
	}
	return list
}

// whyWaits returns the event that p waits for, "" if it does not wait.
func (t *pushTable) whyWaits(p *push) string {
	switch {
	case p.phase.state() != status.PushWaiting:
		return ""
	case !t.channels.Get(p.Channel).IsOpen():
		return "this host has no channel " + p.Channel + " that can be read; the push begins when there is one"
	case p.link == nil:
		return p.Host + " is not linked; the push begins when it is"
	}
	return p.Host + " has not answered yet"
}
