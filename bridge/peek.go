package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"achbridge/bridge/rule"
	"achbridge/localach"
)

// peek is the wish of somebody who looks at a channel of another host for a while. It
// goes behind all others: where there is one, that one's mirror is there to be looked
// at. Else there is a mirror of its own, of the lowest priority, so that looking takes
// nothing from others, and its file goes with the last who looks.
type peek struct {
	rule.Mirror
	users int
}

// lowest is priority 0.
const lowest rule.Priority = 1

// peekPrefix begins the names of mirrors for who looks; the node follows.
const peekPrefix = "peek-"

// IsPeek tells a mirror that is there for who looks, and goes with him.
func IsPeek(channel string, tag localach.Tag) bool {
	return tag != (localach.Tag{}) && strings.HasPrefix(channel, peekPrefix)
}

// Peek has a channel of another host mirrored until end is called, which may be called
// twice. An error is that the channel cannot be, or must not be.
func (n *Node) Peek(host, channel string) (end func(), err error) {
	w := rule.Mirror{Host: host, Channel: channel, QoS: rule.QoS{Priority: lowest, Late: rule.LateDeliver}, From: "somebody who looks at it"}
	err = w.Check()
	if err == nil && (rule.IsPattern(host) || rule.IsPattern(channel)) {
		err = fmt.Errorf("%s/%s: one channel can be looked at, no pattern", host, channel)
	}
	if err != nil {
		return nil, err
	}
	if !n.call(func() { err = n.addPeek(w) }) {
		return nil, errEnded
	}
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { n.post(func() { n.endPeek(host, channel) }) }), nil
}

func (n *Node) addPeek(w rule.Mirror) error {
	if found, ok := n.cfg.Mirrors.Denial(w.Host, w.Channel); ok {
		return fmt.Errorf("%s/%s: %s denies it", w.Host, w.Channel, cmp.Or(found.From, "the configuration"))
	}
	n.changed = true
	for _, p := range n.peeks {
		if p.Host == w.Host && p.Channel == w.Channel {
			p.users++
			return nil
		}
	}
	n.peeked++
	w.As = fmt.Sprintf("%s%d", n.peekNames(), n.peeked)
	n.peeks = append(n.peeks, &peek{Mirror: w, users: 1})
	return nil
}

func (n *Node) endPeek(host, channel string) {
	n.changed = true
	n.peeks = slices.DeleteFunc(n.peeks, func(p *peek) bool {
		if p.Host != host || p.Channel != channel {
			return false
		}
		p.users--
		return p.users == 0
	})
}

// peekFor returns the wish of who looks at a channel of a host.
func (n *Node) peekFor(host, channel string) (rule.Mirror, bool) {
	for _, p := range n.peeks {
		if p.Host == host && p.Channel == channel {
			return p.Mirror, true
		}
	}
	return rule.Mirror{}, false
}

// peekNames is what the names of this node's mirrors for who looks begin with.
func (n *Node) peekNames() string { return fmt.Sprintf("%s%.8s-", peekPrefix, n.cfg.Node) }

// sweepPeeks removes what a daemon that was killed has left.
func (n *Node) sweepPeeks() {
	list, err := n.cfg.Dir.List()
	if err != nil {
		return // whoever follows the directory tells
	}
	for _, c := range list {
		if !strings.HasPrefix(c.Name, n.peekNames()) {
			continue
		}
		ch, err := n.cfg.Dir.TryOpen(c.Name)
		if err != nil {
			continue
		}
		ours := ch.Tag() != (localach.Tag{})
		ch.Close()
		if ours {
			_ = n.cfg.Dir.Unlink(c.Name)
		}
	}
}
