package bridge

import (
	"errors"
	"fmt"
	"slices"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// maxPushed is the number of pushes that this host accepts from one peer.
const maxPushed = 256

// offer answers a peer that wants to push a channel. If the accept rules allow it, the offer
// becomes a request for a mirror here.
func (n *Node) offer(l *link, m wire.Offer) {
	if m.As == "" {
		m.As = m.Channel
	}
	request, err := n.acceptable(l, m)
	if err != nil {
		l.turnDown(m)
		n.refuseOffer(l, m, err)
		return
	}
	w := pushed{request, m}
	if code, text := n.pushConflict(l, w.Mirror); text != "" {
		l.refusal("push refused", status.Event{Channel: m.Channel, Mirror: m.As, Text: text})
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeOffer, Code: code, Text: wire.Text(text)})
		return
	}
	l.offers.accepted = append(slices.DeleteFunc(l.offers.accepted, w.again), w)
	n.loop.changed()
	l.send(wire.Accepted{ID: m.ID})
}

// refuseOffer informs the peer that the rules or the operator lock refuse a push.
func (n *Node) refuseOffer(l *link, m wire.Offer, why error) {
	_, isHeld := errors.AsType[lockError](why)
	refused := wire.Refused{ID: m.ID, Re: wire.TypeOffer}
	if isHeld {
		refused.Code, refused.Text = wire.CodeHeld, wire.Text(why.Error())
		l.send(refused)
		l.send(n.holderFor(l, m.As))
		return
	}
	l.refusal("push refused", status.Event{Channel: m.Channel, Mirror: m.As, Text: why.Error()})
	refused.Code, refused.Text = wire.CodeForbidden, wire.Text(fmt.Sprintf("%s does not accept %s: %v", n.cfg.Host, m.As, why))
	l.send(refused)
}

// pushed is a mirror request that an accepted push of a peer has made on this host.
type pushed struct {
	rule.Mirror
	offer wire.Offer
}

// again reports whether o is for the same channel and name.
func (p pushed) again(o pushed) bool { return p.Same(o.Mirror) }

// acceptable returns the request that a peer's offer makes here, or an error if the rules refuse
// it.
func (n *Node) acceptable(l *link, m wire.Offer) (rule.Mirror, error) {
	found, err := n.cfg.Accept.For(m.As, l.host)
	if errors.Is(err, rule.ErrNoGrant) {
		return rule.Mirror{}, fmt.Errorf("%w; start it with --accept %s", err, m.As)
	}
	if deny, ok := n.requests.rules.Denial(l.host, m.Channel); ok && err == nil {
		err = rule.DeniedBy(deny.From)
	}
	if text := n.requests.outputText(m.As); text != "" && err == nil {
		err = fmt.Errorf("%s is %s of %s", m.As, text, n.cfg.Host)
	}
	if err != nil {
		return rule.Mirror{}, err
	}
	if err := n.lockAllows(l, m); err != nil {
		return rule.Mirror{}, err
	}
	asked, err := rule.QoSFromWire(m.QoS)
	if err == nil && m.Stamps != "" {
		err = asked.Set("stamps", m.Stamps, nil)
	}
	if err != nil {
		return rule.Mirror{}, err
	}
	qos, err := found.ForPush(asked)
	return rule.Mirror{Host: l.host, Channel: m.Channel, As: m.As, QoS: qos, FileMode: found.FileMode, From: found.From}, err
}

// turnDown remembers an offer that the rules refuse, since the rules may change.
func (l *link) turnDown(m wire.Offer) {
	l.offers.refused = slices.DeleteFunc(l.offers.refused, func(o wire.Offer) bool { return o.Channel == m.Channel && o.As == m.As })
	if len(l.offers.refused) < maxPushed {
		l.offers.refused = append(l.offers.refused, m)
	}
}

// pushConflict returns the code and the reason why w, a push of l's peer, cannot be accepted. text
// is empty if w can be accepted. An operator's request that names the channel takes precedence
// over a push, and a push takes precedence over requests with patterns.
func (n *Node) pushConflict(l *link, w rule.Mirror) (code wire.Code, text string) {
	if other := n.writerOf(w.As, w.Host, w.Channel); other != "" && !n.depose(w.As, l.host) {
		return wire.CodeConflict, fmt.Sprintf("%s is written by %s already", w.As, other)
	}
	for _, known := range n.requests.withPushed() {
		if known.Host == w.Host && known.Channel == w.Channel && known.Name(w.Host, w.Channel) != w.As {
			return wire.CodeConflict, fmt.Sprintf("%s has %s already, as %s", n.cfg.Host, w.Channel, known.Name(w.Host, w.Channel))
		}
	}
	known := slices.ContainsFunc(l.offers.accepted, pushed{Mirror: w}.again)
	if len(l.offers.accepted) >= maxPushed && !known {
		return wire.CodeLimit, fmt.Sprintf("%s takes at most %d pushes of one host", n.cfg.Host, maxPushed)
	}
	if len(n.pushed()) >= maxAllPushed && !known {
		return wire.CodeLimit, fmt.Sprintf("%s takes at most %d pushes", n.cfg.Host, maxAllPushed)
	}
	return 0, ""
}

// judgePushes applies changed rules to the pushes of l's peer, including refused ones.
func (n *Node) judgePushes(l *link) {
	kept := l.offers.accepted[:0:0]
	for _, p := range l.offers.accepted {
		request, err := n.acceptable(l, p.offer)
		if err != nil {
			n.offer(l, p.offer) // refuses the push
			continue
		}
		kept = append(kept, pushed{request, p.offer})
	}
	l.offers.accepted = kept
	refused := l.offers.refused
	l.offers.refused = nil
	for _, m := range refused {
		if _, err := n.acceptable(l, m); err != nil {
			l.turnDown(m) // the peer was sent the refusal before
			continue
		}
		n.offer(l, m)
	}
}
