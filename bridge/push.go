package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// push is the wish that a peer mirrors a channel of ours. It belongs to the
// node's goroutine.
type push struct {
	rule.Push
	asked  bool  // for while the daemon ran: it outlives a change of the configuration
	link   *link // that it was offered on
	id     uint32
	state  status.PushState
	reason string
	cause  status.Cause
	answer []chan error // who waits for the peer's answer; each has room for it
}

const (
	pushAnswer = 2 * time.Second
	maxPushed  = 256 // pushes of one peer that we take
)

func (p *push) linkDown(l *link) {
	if p.link == l {
		p.link, p.state, p.reason, p.cause = nil, status.PushWaiting, "no link to "+p.Host, status.CausePeerMissing
	}
}

// Push adds a wish to push and waits until the peer has accepted it, at most
// two seconds. One for the same channel, host and name takes the place of the
// former, whose subscription gets its QoS without a gap. A wish that the peer refuses is dropped and its reason returned;
// one whose peer or channel is missing stays and waits for it.
func (n *Node) Push(ctx context.Context, p rule.Push) error {
	if err := p.CheckOne(); err != nil {
		return err
	}
	answer := make(chan error, 1)
	if !n.call(func() { n.addPush(p, answer) }) {
		return errors.New("push: the daemon has ended")
	}
	t := time.NewTimer(pushAnswer)
	defer t.Stop()
	var late error // nil: it waits, and status tells
	select {
	case err := <-answer:
		return err
	case <-t.C:
	case <-ctx.Done():
		late = ctx.Err()
	}
	n.call(func() { n.forgetWaiter(answer) })
	select {
	case err := <-answer:
		return err // it came meanwhile
	default:
		return late
	}
}

func (n *Node) addPush(p rule.Push, answer chan error) {
	if found, ok := n.cfg.Pushes.Denial(p.Channel, p.Host); ok {
		answer <- fmt.Errorf("push %s: %s denies it", p.Channel, cmp.Or(found.From, "the configuration"))
		return
	}
	for _, known := range n.pushes {
		if !known.Same(p) {
			continue
		}
		known.asked = true
		known.answer = append(known.answer, answer)
		switch {
		case known.QoS != p.QoS || known.state == status.PushRefused:
			known.Push, known.link, n.changed = p, nil, true // ask once more
		case known.state == status.PushAccepted:
			known.reply(nil)
		}
		return
	}
	n.pushes = append(n.pushes, &push{Push: p, asked: true, state: status.PushWaiting, answer: []chan error{answer}})
	n.localChanged(p.Channel)
	n.changed = true // even if the channel is as it was
}

// forgetWaiter takes answer away from the push it waits for: from now on that
// is a wish like one of the configuration, which a refusal does not end.
func (n *Node) forgetWaiter(answer chan error) {
	for _, p := range n.pushes {
		p.answer = slices.DeleteFunc(p.answer, func(c chan error) bool { return c == answer })
	}
}

// offerPushes offers what is to be pushed to l's peer and was not yet.
func (n *Node) offerPushes(l *link) {
	for _, p := range n.pushes {
		c := n.locals[p.Channel]
		if p.Host != l.host || p.link == l || c == nil || c.ch == nil {
			continue
		}
		l.lastID++
		p.link, p.id, p.state = l, l.lastID, status.PushWaiting
		l.offered[p.Channel] = true
		n.sendCatalog(l)
		l.send(wire.Offer{ID: p.id, Channel: p.Channel, As: p.NameThere(), QoS: p.QoS.Wire()})
		n.judgeExports(l) // a push that was changed may allow less
	}
}

// offer answers a peer that wants to push: a name that accept covers becomes
// a mirror, as if it had been wished for here.
func (n *Node) offer(l *link, m wire.Offer) {
	if m.As == "" {
		m.As = m.Channel
	}
	wish, err := n.acceptable(l, m)
	if err != nil {
		l.turn(m)
		l.refusal("push refused", status.Event{Channel: m.Channel, Mirror: m.As, Text: err.Error()})
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeOffer, Code: wire.CodeForbidden,
			Text: wire.Text(fmt.Sprintf("%s does not accept %s: %v", n.cfg.Host, m.As, err))})
		return
	}
	w := pushed{wish, m}
	if code, text := n.pushConflict(l, w.Mirror); text != "" {
		l.refusal("push refused", status.Event{Channel: m.Channel, Mirror: m.As, Text: text})
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeOffer, Code: code, Text: wire.Text(text)})
		return
	}
	l.pushed = append(slices.DeleteFunc(l.pushed, w.again), w)
	n.changed = true
	l.send(wire.Accepted{ID: m.ID})
}

// pushed is a wish that a peer's push has made here.
type pushed struct {
	rule.Mirror
	offer wire.Offer
}

// again reports whether o is for the same channel and name.
func (p pushed) again(o pushed) bool { return p.Same(o.Mirror) }

// acceptable returns the wish that a peer's offer makes here, or says why the rules
// do not let it.
func (n *Node) acceptable(l *link, m wire.Offer) (rule.Mirror, error) {
	found, err := n.cfg.Accept.For(m.As, l.host)
	if errors.Is(err, rule.ErrNoGrant) {
		return rule.Mirror{}, fmt.Errorf("%w; start it with --accept %s", err, m.As)
	}
	if deny, ok := n.cfg.Mirrors.Denial(l.host, m.Channel); ok && err == nil {
		err = rule.DeniedBy(deny.From)
	}
	if err != nil {
		return rule.Mirror{}, err
	}
	asked, err := rule.QoSFromWire(m.QoS)
	if err != nil {
		return rule.Mirror{}, err
	}
	qos, err := found.ForPush(asked)
	return rule.Mirror{Host: l.host, Channel: m.Channel, As: m.As, QoS: qos, FileMode: found.FileMode, From: found.From}, err
}

// turn remembers an offer that the rules refuse, in case they change.
func (l *link) turn(m wire.Offer) {
	l.turned = slices.DeleteFunc(l.turned, func(o wire.Offer) bool { return o.Channel == m.Channel && o.As == m.As })
	if len(l.turned) < maxPushed {
		l.turned = append(l.turned, m)
	}
}

// pushConflict says what stands against w, which l's peer wants to push; text
// is empty when nothing does. What the operator has named goes before a push,
// and a push before patterns.
func (n *Node) pushConflict(l *link, w rule.Mirror) (code wire.Code, text string) {
	if other := n.writerOf(w.As, w.Host, w.Channel); other != "" && !n.depose(w.As, l.host) {
		return wire.CodeConflict, fmt.Sprintf("%s is written by %s already", w.As, other)
	}
	for _, known := range slices.Concat(n.wishes(), n.pushed()) {
		if known.Host == w.Host && known.Channel == w.Channel && known.Name(w.Host, w.Channel) != w.As {
			return wire.CodeConflict, fmt.Sprintf("%s has %s already, as %s", n.cfg.Host, w.Channel, known.Name(w.Host, w.Channel))
		}
	}
	known := slices.ContainsFunc(l.pushed, pushed{Mirror: w}.again)
	if len(l.pushed) >= maxPushed && !known {
		return wire.CodeLimit, fmt.Sprintf("%s takes at most %d pushes of one host", n.cfg.Host, maxPushed)
	}
	if len(n.pushed()) >= maxAllPushed && !known {
		return wire.CodeLimit, fmt.Sprintf("%s takes at most %d pushes", n.cfg.Host, maxAllPushed)
	}
	return 0, ""
}

// pushAnswered takes the peer's answer to an offer; reason is empty when it
// accepted.
func (n *Node) pushAnswered(l *link, id uint32, reason string, cause status.Cause) {
	for i, p := range n.pushes {
		if p.link != l || p.id != id {
			continue
		}
		if reason == "" {
			if p.state == status.PushRefused { // its rules have changed
				l.offered[p.Channel], n.changed = true, true
			}
			p.state, p.reason, p.cause = status.PushAccepted, "", ""
			p.reply(nil)
			return
		}
		l.refusal("push refused by the peer", status.Event{Channel: p.Channel, Text: reason})
		p.state, p.reason, p.cause = status.PushRefused, reason, cause
		delete(l.offered, p.Channel)
		if p.reply(fmt.Errorf("push %s: %s", p.Channel, reason)) {
			n.pushes = append(n.pushes[:i:i], n.pushes[i+1:]...)
		}
		n.changed = true
		return
	}
}

// reply reports whether somebody waited for the answer.
func (p *push) reply(err error) bool {
	waiters := p.answer
	p.answer = nil
	for _, c := range waiters {
		c <- err
	}
	return len(waiters) > 0
}

// planPushes makes the pushes those that the configuration's rules ask for, as
// far as their channels are known, and those that were asked for otherwise.
func (n *Node) planPushes() {
	n.pushes = slices.DeleteFunc(n.pushes, func(p *push) bool {
		found, wanted := n.cfg.Pushes.For(p.Channel, p.Host)
		if p.asked || wanted && found.NameThere() == p.NameThere() {
			return false
		}
		n.withdraw(p)
		return true
	})
	for _, found := range n.cfg.Pushes {
		if !found.Deny && !rule.IsPattern(found.Channel) {
			n.planPush(found.Channel)
		}
	}
	for name := range n.locals {
		n.planPush(name)
	}
}

// planPush makes the pushes of one channel that rules ask for and that are not
// there yet.
func (n *Node) planPush(channel string) {
	for _, found := range n.cfg.Pushes {
		p, ok := n.cfg.Pushes.For(channel, found.Host)
		if !ok || rule.IsPattern(p.Channel) && n.isMirror(channel) {
			continue
		}
		p = rule.Push{Channel: channel, Host: p.Host, As: rule.Expand(p.As, "", channel), QoS: p.QoS, From: p.From}
		known, ok := firstOf(n.pushes, func(known *push) bool { return known.Same(p) })
		switch {
		case !ok:
			n.pushes = append(n.pushes, &push{Push: p, state: status.PushWaiting})
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
		found, _ := n.cfg.Pushes.For(channel, p.Host)
		if p.Channel != channel || p.asked || !rule.IsPattern(found.Channel) {
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
