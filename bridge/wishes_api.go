package bridge

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	"achbridge/bridge/rule"
)

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
