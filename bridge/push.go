package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"achbridge/wire"
)

// push is the wish that a peer mirrors a channel of ours. It belongs to the
// node's goroutine.
type push struct {
	Push
	asked  bool  // for while the daemon ran: it outlives a change of the configuration
	link   *link // that it was offered on
	id     uint32
	state  string
	reason string
	cause  Cause
	answer []chan error // who waits for the peer's answer; each has room for it
}

const (
	pushAccepted = "accepted"
	pushAnswer   = 2 * time.Second
	maxPushed    = 256 // pushes of one peer that we take
)

func (p *push) linkDown(l *link) {
	if p.link == l {
		p.link, p.state, p.reason, p.cause = nil, stateWaiting, "no link to "+p.Host, CausePeerMissing
	}
}

// Push adds a wish to push and waits until the peer has accepted it, at most
// two seconds. One for the same channel, host and name takes the place of the
// former, whose subscription gets its QoS without a gap. A wish that the peer refuses is dropped and its reason returned;
// one whose peer or channel is missing stays and waits for it.
func (n *Node) Push(ctx context.Context, p Push) error {
	if err := p.check(); err != nil {
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

func (n *Node) addPush(p Push, answer chan error) {
	if rule, ok := n.cfg.Pushes.Denial(p.Channel, p.Host); ok {
		answer <- fmt.Errorf("push %s: %s denies it", p.Channel, cmp.Or(rule.From, "the configuration"))
		return
	}
	for _, known := range n.pushes {
		if !known.Same(p) {
			continue
		}
		known.asked = true
		known.answer = append(known.answer, answer)
		switch {
		case known.QoS != p.QoS || known.state == stateRefused:
			known.Push, known.link, n.changed = p, nil, true // ask once more
		case known.state == pushAccepted:
			known.reply(nil)
		}
		return
	}
	n.pushes = append(n.pushes, &push{Push: p, asked: true, state: stateWaiting, answer: []chan error{answer}})
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
		p.link, p.id, p.state = l, l.lastID, stateWaiting
		l.offered[p.Channel] = true
		n.sendCatalog(l)
		l.send(wire.Offer{ID: p.id, Channel: p.Channel, As: p.name(), QoS: p.QoS.wire()})
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
		l.refusal("push refused", Event{Channel: m.Channel, Mirror: m.As, Text: err.Error()})
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeOffer, Code: wire.CodeForbidden,
			Text: wire.Text(fmt.Sprintf("%s does not accept %s: %v", n.cfg.Host, m.As, err))})
		return
	}
	w := pushed{wish, m}
	if code, text := n.pushConflict(l, w.Mirror); text != "" {
		l.refusal("push refused", Event{Channel: m.Channel, Mirror: m.As, Text: text})
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeOffer, Code: code, Text: wire.Text(text)})
		return
	}
	l.pushed = append(slices.DeleteFunc(l.pushed, w.again), w)
	n.changed = true
	l.send(wire.Accepted{ID: m.ID})
}

// pushed is a wish that a peer's push has made here.
type pushed struct {
	Mirror
	offer wire.Offer
}

// again reports whether o is for the same channel and name.
func (p pushed) again(o pushed) bool { return p.same(o.Mirror) }

// acceptable returns the wish that a peer's offer makes here, or says why the rules
// do not let it.
func (n *Node) acceptable(l *link, m wire.Offer) (Mirror, error) {
	rule, err := n.cfg.Accept.For(m.As, l.host)
	if errors.Is(err, errNoGrant) {
		return Mirror{}, fmt.Errorf("%w; start it with --accept %s", err, m.As)
	}
	if deny, ok := n.cfg.Mirrors.Denial(l.host, m.Channel); ok && err == nil {
		err = deniedBy(deny.From)
	}
	if err != nil {
		return Mirror{}, err
	}
	asked, err := qosOf(m.QoS)
	if err != nil {
		return Mirror{}, err
	}
	qos, err := rule.over(asked)
	return Mirror{Host: l.host, Channel: m.Channel, As: m.As, QoS: qos, FileMode: rule.FileMode, From: rule.From}, err
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
func (n *Node) pushConflict(l *link, w Mirror) (code wire.Code, text string) {
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
func (n *Node) pushAnswered(l *link, id uint32, reason string, cause Cause) {
	for i, p := range n.pushes {
		if p.link != l || p.id != id {
			continue
		}
		if reason == "" {
			if p.state == stateRefused { // its rules have changed
				l.offered[p.Channel], n.changed = true, true
			}
			p.state, p.reason, p.cause = pushAccepted, "", ""
			p.reply(nil)
			return
		}
		l.refusal("push refused by the peer", Event{Channel: p.Channel, Text: reason})
		p.state, p.reason, p.cause = stateRefused, reason, cause
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
