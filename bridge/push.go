package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"achbridge/bridge/achdway"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// push is the wish that a peer mirrors a channel of this host. It belongs to the node's
// goroutine.
type push struct {
	rule.Push
	asked  bool               // added by Push, so that a new configuration ends it only if it denies it
	link   *link              // on which it was offered
	achd   *achdway.Publisher // sends the channel in place of links; nil for none
	id     uint32             // of the offer on that link; 0: it is to be offered anew
	state  status.PushState
	reason string
	cause  status.Cause
	answer []chan error // calls of Push that wait for the peer's answer; each with room for one
}

const (
	pushAnswer = 2 * time.Second
	maxPushed  = 256 // pushes of one peer that this host accepts
)

func (p *push) linkDown(l *link) {
	if p.link == l {
		p.link, p.state, p.reason, p.cause = nil, status.PushWaiting, "no link to "+p.Host, status.CausePeerMissing
	}
}

// Push adds a wish to push a channel, and waits at most two seconds for the peer to accept it.
// A wish replaces an earlier one for the same channel, host and name; the subscription then
// gets the new QoS without a gap. If the peer refuses the wish, Push drops it and returns the
// reason. If the peer or the channel is missing, the wish stays and waits for it.
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
	var late error // nil: the wish waits, and the status says why
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
		return err // the answer came meanwhile
	default:
		return late
	}
}

func (n *Node) addPush(p rule.Push, answer chan error) {
	if err := n.pushDenied(p); err != nil {
		answer <- err
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
			known.Push, known.id, n.changed = p, 0, true // ask once more
		case known.state == status.PushAccepted:
			known.reply(nil)
		}
		return
	}
	made := &push{Push: p, asked: true, state: status.PushWaiting, answer: []chan error{answer}}
	n.pushes = append(n.pushes, made)
	n.localChanged(p.Channel)
	n.changed = true // even if the channel is as it was
	if n.locals.Get(p.Channel) == nil {
		made.reply(nil) // nobody answers before there is a channel
	}
}

// pushDenied is an error if a rule denies p.
func (n *Node) pushDenied(p rule.Push) error {
	found, ok := n.cfg.Pushes.Denial(p.Channel, p.Host)
	if !ok {
		return nil
	}
	return fmt.Errorf("push %s: %s denies it", p.Channel, cmp.Or(found.From, "the configuration"))
}

// whyPushWaits says what p waits for, "" when it does not wait.
func (n *Node) whyPushWaits(p *push) string {
	switch {
	case cmp.Or(p.state, status.PushWaiting) != status.PushWaiting:
		return ""
	case !n.locals.Get(p.Channel).IsOpen():
		return "this host has no channel " + p.Channel + " that can be read; the push begins when there is one"
	case p.link == nil:
		return p.Host + " is not linked; the push begins when it is"
	}
	return p.Host + " has not answered yet"
}

// forgetWaiter removes answer from its push. From now on the push is a lasting wish, like one
// of the configuration: a refusal does not end it.
func (n *Node) forgetWaiter(answer chan error) {
	for _, p := range n.pushes {
		p.answer = slices.DeleteFunc(p.answer, func(c chan error) bool { return c == answer })
	}
}

// pushTo returns the push because of which l's peer may read a channel, nil if there is none:
// one that was offered to it, and that it has not refused.
func (n *Node) pushTo(l *link, channel string) *push {
	p, _ := firstOf(n.pushes, func(p *push) bool {
		return p.link == l && p.Channel == channel && p.state != status.PushRefused
	})
	return p
}

// offerPushes offers l's peer the pushes that were not offered to it yet.
func (n *Node) offerPushes(l *link) {
	for _, p := range n.pushes {
		if p.Host != l.host || !l.greeted || p.link == l && p.id != 0 || !n.locals.Get(p.Channel).IsOpen() {
			continue
		}
		if err := n.otherMachine(l); err != nil {
			n.holdBack(p, l, err)
			continue
		}
		n.wentTo(l)
		l.lastID++
		p.link, p.id, p.state, p.reason, p.cause = l, l.lastID, status.PushWaiting, "", ""
		n.sendCatalog(l)
		l.send(wire.Offer{ID: p.id, Channel: p.Channel, As: p.NameThere(), QoS: p.QoS.Wire()})
		n.judgeExports(l) // a push that was changed may allow less
	}
}

// holdBack makes a push wait because its host runs on another machine than before, and reports that once.
func (n *Node) holdBack(p *push, l *link, why error) {
	p.reply(nil)
	if p.cause == status.CauseOtherMachine {
		return
	}
	p.state, p.reason, p.cause = status.PushWaiting, l.host+": "+why.Error(), status.CauseOtherMachine
	l.refusal("push held back", status.Event{Channel: p.Channel, Text: why.Error()})
}

// offer answers a peer that wants to push a channel. If the accept rules allow it, the offer
// becomes a wish for a mirror here.
func (n *Node) offer(l *link, m wire.Offer) {
	if m.As == "" {
		m.As = m.Channel
	}
	wish, err := n.acceptable(l, m)
	if err != nil {
		l.turnDown(m)
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

// acceptable returns the wish that a peer's offer makes here, or an error if the rules refuse
// it.
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

// turnDown remembers an offer that the rules refuse, since the rules may change.
func (l *link) turnDown(m wire.Offer) {
	l.turned = slices.DeleteFunc(l.turned, func(o wire.Offer) bool { return o.Channel == m.Channel && o.As == m.As })
	if len(l.turned) < maxPushed {
		l.turned = append(l.turned, m)
	}
}

// pushConflict says why w, which l's peer wants to push, cannot be accepted; text is empty if
// it can. A wish of the operator that names the channel comes before a push, and a push before
// wishes with patterns.
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

// pushAnswered handles the peer's answer to an offer. reason is empty if the peer accepted.
func (n *Node) pushAnswered(l *link, id uint32, reason string, cause status.Cause) {
	for i, p := range n.pushes {
		if p.link != l || p.id != id {
			continue
		}
		if reason == "" {
			if p.state == status.PushRefused { // its rules have changed
				n.changed = true
			}
			p.state, p.reason, p.cause = status.PushAccepted, "", ""
			p.reply(nil)
			return
		}
		l.refusal("push refused by the peer", status.Event{Channel: p.Channel, Text: reason})
		p.state, p.reason, p.cause = status.PushRefused, reason, cause
		if p.reply(fmt.Errorf("push %s: %s", p.Channel, reason)) {
			n.pushes = append(n.pushes[:i:i], n.pushes[i+1:]...)
		}
		n.changed = true
		return
	}
}

// reply sends the answer to the calls of Push that wait for it. It returns false if none does.
func (p *push) reply(err error) bool {
	waiters := p.answer
	p.answer = nil
	for _, c := range waiters {
		c <- err
	}
	return len(waiters) > 0
}

// planPushes replaces the pushes by those that the configuration's rules ask for, for the
// channels known, and those that Push has added and no rule denies.
func (n *Node) planPushes() {
	n.pushes = slices.DeleteFunc(n.pushes, func(p *push) bool {
		if err := n.pushDenied(p.Push); err != nil {
			p.reply(err)
			n.withdraw(p)
			return true
		}
		found, wanted := n.cfg.Pushes.For(p.Channel, p.Host)
		if rule.IsPattern(found.Channel) && n.locals.Get(p.Channel) == nil {
			wanted = false // a pattern asks for channels that there are
		}
		if p.asked || wanted && found.Name(p.Channel) == p.NameThere() {
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
	for name := range n.locals.All() {
		n.planPush(name)
	}
}

// planPush adds the missing pushes of one channel that the rules ask for.
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
			known.id = 0 // it is offered anew
			fallthrough
		case !known.asked:
			known.Push = p
		}
	}
}

// unplanPush removes the pushes of a channel that only a pattern asks for, since the channel
// is gone or is a mirror.
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

// isMirror reports whether a channel is a mirror. Patterns do not push mirrors, so that frames
// of another host are not passed on by accident.
func (n *Node) isMirror(channel string) bool {
	c := n.locals.Get(channel)
	return n.mirrors[channel] != nil || c != nil && c.IsMirror
}

// withdraw ends a push that is no longer among the node's, so that its peer hears of it.
func (n *Node) withdraw(p *push) {
	p.endAchd()
	if p.link != nil {
		n.changed = true
	}
}
