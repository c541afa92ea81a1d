package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"achbridge/bridge/rule"
	"achbridge/localach"
)

// peek is a wish for a temporary mirror, of a viewer such as achbridge echo. All other wishes
// come before it: if one of them has the channel mirrored, the viewer reads that mirror.
// Otherwise there is a mirror of its own, with the lowest priority, so that it takes nothing
// from others, and a budget that also the large frames of a slow link keep. Its file is removed
// with its last viewer.
type peek struct {
	rule.Mirror
	users int
}

// lowest is priority 0.
const lowest rule.Priority = 1

// peekPrefix begins the names of temporary mirrors; a part of the node's id follows.
const peekPrefix = "peek-"

// IsPeek reports whether a channel is a temporary mirror, which is removed with its last
// viewer.
func IsPeek(channel string, tag localach.Tag) bool {
	return tag != (localach.Tag{}) && strings.HasPrefix(channel, peekPrefix)
}

// Peek makes a temporary mirror of a channel of another host, until end is called. end may be
// called twice. The error says why there can be no such mirror.
func (n *Node) Peek(host, channel string) (end func(), err error) {
	w := rule.Mirror{Host: host, Channel: channel, QoS: rule.QoS{Priority: lowest, Budget: time.Hour}, From: "somebody who looks at it"}
	if rule.IsAchd(host) {
		w.QoS = rule.QoS{}
	}
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
	if _, ok := n.wishFor(w.Host, w.Channel); !ok && rule.IsAchd(w.Host) {
		return fmt.Errorf("%s/%s: achd has no authentication, so nothing is asked of it without a rule; mirror it first: achbridge mirror %s/%s", w.Host, w.Channel, w.Host, w.Channel)
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

// peekFor returns the wish for a temporary mirror of a channel; false when there is none.
func (n *Node) peekFor(host, channel string) (rule.Mirror, bool) {
	for _, p := range n.peeks {
		if p.Host == host && p.Channel == channel {
			return p.Mirror, true
		}
	}
	return rule.Mirror{}, false
}

// peekNames is the beginning of the names of this node's temporary mirrors.
func (n *Node) peekNames() string { return fmt.Sprintf("%s%.8s-", peekPrefix, n.cfg.Node) }

// sweepPeeks removes temporary mirrors that a killed daemon has left.
func (n *Node) sweepPeeks() {
	list, err := n.cfg.Dir.List()
	if err != nil {
		return // Source.Changes reports the error of the directory
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
