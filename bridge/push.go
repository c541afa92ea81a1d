package bridge

import (
	"context"
	"errors"
	"fmt"
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
	answer chan error // somebody waits for the peer's answer; may be nil
}

const (
	pushAccepted = "accepted"
	pushAnswer   = 2 * time.Second
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
	select {
	case err := <-answer:
		return err
	case <-t.C:
		return nil // waiting; status tells
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *Node) addPush(p Push, answer chan error) {
	for _, known := range n.pushes {
		if known.Push == p {
			known.answer = answer
			if known.state == pushAccepted {
				answer <- nil
			}
			return
		}
	}
	n.pushes = append(n.pushes, &push{Push: p, state: stateWaiting, answer: answer})
	n.localChanged(p.Channel)
	n.changed = true
	n.changed = true // the channel may be as it was
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
	if other := n.mirrors[m.As]; other != nil && (other.host != l.host || other.channel != m.Channel) {
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeOffer, Code: wire.CodeConflict,
			Text: fmt.Sprintf("%s is written by %s already", m.As, other.host)})
		return
	}
	w := Mirror{Host: l.host, Channel: m.Channel, As: m.As}
	l.pushed = append(l.pushed, w)
	// In front, so that a pattern of ours does not give it another name.
	n.wishes = append([]Mirror{w}, n.wishes...)
	n.changed = true
	l.send(wire.Accepted{ID: m.ID})
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
	if p.answer == nil {
		return false
	}
	p.answer <- err
	p.answer = nil
	return true
}
