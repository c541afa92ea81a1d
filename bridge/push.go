package bridge

import (
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
	link   *link // that it was offered on
	id     uint32
	state  string
	reason string
	answer []chan error // who waits for the peer's answer; each has room for it
}

const (
	pushAccepted = "accepted"
	pushAnswer   = 2 * time.Second
	maxPushed    = 256 // pushes of one peer that we take
)

func (p *push) linkDown(l *link) {
	if p.link == l {
		p.link, p.state, p.reason = nil, stateWaiting, "no link to "+p.Host
	}
}

// Push adds a wish to push and waits until the peer has accepted it, at most
// two seconds. A wish that the peer refuses is dropped and its reason returned;
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
	for _, known := range n.pushes {
		if known.Push != p {
			continue
		}
		known.answer = append(known.answer, answer)
		switch known.state {
		case pushAccepted:
			known.reply(nil)
		case stateRefused:
			known.link, n.changed = nil, true // ask once more
		}
		return
	}
	n.pushes = append(n.pushes, &push{Push: p, state: stateWaiting, answer: []chan error{answer}})
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
		l.send(wire.Offer{ID: p.id, Channel: p.Channel, As: p.name()})
	}
}

// offer answers a peer that wants to push: a name that accept covers becomes
// a mirror, as if it had been wished for here.
func (n *Node) offer(l *link, m wire.Offer) {
	if m.As == "" {
		m.As = m.Channel
	}
	if !matches(n.cfg.Accept, m.As) {
		n.log.Warn("push refused", "peer", l.host, "channel", m.As, "cause", "no --accept pattern matches")
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeOffer, Code: wire.CodeForbidden,
			Text: fmt.Sprintf("%s does not accept %s; start it with --accept %s", n.cfg.Host, m.As, m.As)})
		return
	}
	w := Mirror{Host: l.host, Channel: m.Channel, As: m.As}
	if code, text := n.pushConflict(l, w); text != "" {
		n.log.Warn("push refused", "peer", l.host, "channel", m.As, "cause", text)
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeOffer, Code: code, Text: wire.Text(text)})
		return
	}
	if !slices.Contains(l.pushed, w) {
		l.pushed = append(l.pushed, w)
		n.changed = true
	}
	l.send(wire.Accepted{ID: m.ID})
}

// pushConflict says what stands against w, which l's peer wants to push; text
// is empty when nothing does. What the operator has named goes before a push,
// and a push before patterns.
func (n *Node) pushConflict(l *link, w Mirror) (code wire.Code, text string) {
	if other := n.mirrors[w.As]; other != nil && (other.host != w.Host || other.channel != w.Channel) {
		return wire.CodeConflict, fmt.Sprintf("%s is written by %s already", w.As, other.host)
	}
	for _, known := range slices.Concat(n.wishes, l.pushed) {
		if known.Host == w.Host && known.Channel == w.Channel && known.mirrorName(w.Host, w.Channel) != w.As {
			return wire.CodeConflict, fmt.Sprintf("%s has %s already, as %s", n.cfg.Host, w.Channel, known.mirrorName(w.Host, w.Channel))
		}
	}
	if len(l.pushed) >= maxPushed && !slices.Contains(l.pushed, w) {
		return wire.CodeLimit, fmt.Sprintf("%s takes at most %d pushes of one host", n.cfg.Host, maxPushed)
	}
	return 0, ""
}

// pushAnswered takes the peer's answer to an offer; reason is empty when it
// accepted.
func (n *Node) pushAnswered(l *link, id uint32, reason string) {
	for i, p := range n.pushes {
		if p.link != l || p.id != id {
			continue
		}
		if reason == "" {
			p.state, p.reason = pushAccepted, ""
			p.reply(nil)
			return
		}
		n.log.Warn("push refused by the peer", "peer", l.host, "channel", p.Channel, "err", reason)
		p.state, p.reason = stateRefused, reason
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
