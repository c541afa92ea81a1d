package bridge

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	"achbridge/bridge/rule"
)

// wishes are those that were asked for and those of the configuration.
func (n *Node) wishes() []rule.Mirror {
	return slices.DeleteFunc(slices.Concat(n.asked, n.cfg.Mirrors), func(w rule.Mirror) bool { return w.Deny })
}

// without returns list less what is meant; list stays as it is.
func without(list []rule.Mirror, is func(rule.Mirror) bool) []rule.Mirror {
	return slices.DeleteFunc(slices.Clone(list), is)
}

// Wish returns the wish because of which the node mirrors a channel of a host:
// a rule, one that was asked for, or a push. Denied ones have none.
func (n *Node) Wish(host, channel string) (w rule.Mirror, ok bool) {
	n.call(func() { w, ok = n.wishFor(host, channel) })
	return w, ok
}

// wishFor returns the wish that covers a channel of a host, unless a rule denies
// it. Of the configuration the first rule that matches counts. A wish for
// exactly this channel goes before what the host pushes, and that before
// patterns; among either, what was asked for goes before the configuration. Who
// looks at a channel for a while comes last.
func (n *Node) wishFor(host, channel string) (rule.Mirror, bool) {
	if _, no := n.cfg.Mirrors.Denial(host, channel); no {
		return rule.Mirror{}, false
	}
	exactly := func(w rule.Mirror) bool { return w.Host == host && w.Channel == channel }
	covers := func(w rule.Mirror) bool { return !w.Deny && w.Covers(host, channel) }
	found, ruled := n.cfg.Mirrors.For(host, channel)
	if w, ok := firstOf(n.asked, exactly); ok {
		return w, true
	}
	if ruled && exactly(found) {
		return found, true
	}
	if w, ok := firstOf(n.pushed(), exactly); ok {
		return w, true
	}
	if w, ok := firstOf(n.asked, covers); ok {
		return w, true
	}
	if ruled {
		return found, true
	}
	return n.peekFor(host, channel)
}

func firstOf[T any](list []T, is func(T) bool) (first T, ok bool) {
	i := slices.IndexFunc(list, is)
	if i < 0 {
		return first, false
	}
	return list[i], true
}

// pushed are the wishes that the peers' pushes have made here.
func (n *Node) pushed() []rule.Mirror {
	var list []rule.Mirror
	for _, l := range n.links {
		for _, p := range l.pushed {
			list = append(list, p.Mirror)
		}
	}
	return list
}

// broughtBy is the host of a channel, or "" if somebody here names it: what a pattern
// covers, or the host pushes, is as large as the host says.
func (n *Node) broughtBy(host, channel string) string {
	names := func(w rule.Mirror) bool { return w.Host == host && w.Channel == channel }
	if _, looked := n.peekFor(host, channel); looked || slices.ContainsFunc(n.wishes(), names) {
		return ""
	}
	return host
}

func (n *Node) stillWanted(m *binding) bool {
	w, ok := n.wishFor(m.Host, m.Channel)
	return ok && w.Name(m.Host, m.Channel) == m.Name
}

// Mirror adds a wish. Channels that match it are mirrored as soon as a peer
// offers them. It goes before the same of the configuration. One for the same
// host, channel and name takes the place of the former: running mirrors get its
// QoS without a gap, before Mirror returns. What the configuration denies is refused.
func (n *Node) Mirror(m rule.Mirror) error {
	if err := m.Check(); err != nil {
		return err
	}
	return n.change(func() error {
		if found, ok := n.cfg.Mirrors.Denial(m.Host, m.Channel); ok {
			return fmt.Errorf("mirror %s/%s: %s denies it", m.Host, m.Channel, cmp.Or(found.From, "the configuration"))
		}
		if i := slices.IndexFunc(n.asked, m.Same); i >= 0 {
			n.asked[i] = m
		} else {
			n.asked = append(n.asked, m)
		}
		return nil
	})
}

// Fate says what becomes of a mirror's file.
type Fate int

// What Unmirror does with the mirrors' files.
const (
	Keep Fate = iota
	Remove
)

// Unmirror takes a wish back. Its mirrors stop; their files stay, or go when
// fate is Remove.
func (n *Node) Unmirror(m rule.Mirror, fate Fate) error {
	return n.change(func() error { return n.unmirror(m, fate) })
}

func (n *Node) unmirror(m rule.Mirror, fate Fate) error {
	n.changed = true // a wish that stood behind this one may come into its own, whatever becomes of files
	is := func(w rule.Mirror) bool { return !w.Deny && w.Host == m.Host && w.Channel == m.Channel }
	if before := len(n.wishes()); before > 0 {
		n.asked, n.cfg.Mirrors = without(n.asked, is), without(n.cfg.Mirrors, is)
		if len(n.wishes()) < before {
			return n.dropUnwanted(fate)
		}
	}
	for _, l := range n.links {
		if i := slices.IndexFunc(l.pushed, func(p pushed) bool { return is(p.Mirror) }); i >= 0 {
			l.pushed = slices.Delete(l.pushed, i, i+1)
			return n.dropUnwanted(fate)
		}
	}
	for _, w := range n.wishes() {
		if w.Covers(m.Host, m.Channel) {
			return fmt.Errorf("unmirror %s/%s: it is mirrored because of %s/%s; take that back instead", m.Host, m.Channel, w.Host, w.Channel)
		}
	}
	return fmt.Errorf("unmirror %s/%s: %w: it is not mirrored; `achbridge status` lists the mirrors", m.Host, m.Channel, fs.ErrNotExist)
}
