package bridge

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// wishes are the wishes of the API, then those of the configuration.
func (n *Node) wishes() []rule.Mirror {
	return slices.DeleteFunc(slices.Concat(n.asked, n.cfg.Mirrors), func(w rule.Mirror) bool { return w.Deny })
}

// without returns a copy of list without the wishes for which is returns true.
func without(list []rule.Mirror, is func(rule.Mirror) bool) []rule.Mirror {
	return slices.DeleteFunc(slices.Clone(list), is)
}

// Wish returns the wish because of which the node mirrors a channel of a host: a rule, a wish
// of the API, or a push. ok is false for a channel without a wish or that a rule denies.
func (n *Node) Wish(host, channel string) (w rule.Mirror, ok bool) {
	n.ask(func() { w, ok = n.wishFor(host, channel) })
	return w, ok
}

// wishFor returns the wish for a channel of a host; false if there is none or a rule denies it.
// The order of precedence is: wishes that name the channel, pushes of the host, wishes with
// patterns, temporary mirrors. Wishes of the API come before those of the configuration. Of the
// configuration the first rule that matches applies.
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

// pushed are the wishes that pushes of peers have made here.
func (n *Node) pushed() []rule.Mirror {
	var list []rule.Mirror
	for _, l := range n.links {
		for _, p := range l.pushed {
			list = append(list, p.Mirror)
		}
	}
	return list
}

// broughtBy is "" if a wish of this host names the channel, and otherwise host. The memory of
// such channels is limited for each host, since the host alone decides how large they are.
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

// Mirror adds a wish. Channels that match it are mirrored as soon as a peer offers them. It
// comes before an equal wish of the configuration. It replaces an earlier wish for the same
// host and channel: running mirrors get the new QoS without a gap, before Mirror returns, or
// make way for a mirror with the new name. A wish that the configuration denies is an error.
func (n *Node) Mirror(m rule.Mirror) error {
	if err := m.Check(); err != nil {
		return err
	}
	return n.change(func() error {
		if found, ok := n.cfg.Mirrors.Denial(m.Host, m.Channel); ok {
			return fmt.Errorf("mirror %s/%s: %s denies it", m.Host, m.Channel, cmp.Or(found.From, "the configuration"))
		}
		again := func(w rule.Mirror) bool { return w.Host == m.Host && w.Channel == m.Channel }
		if i := slices.IndexFunc(n.asked, again); i >= 0 {
			n.asked[i] = m
		} else {
			n.asked = append(n.asked, m)
		}
		return nil
	})
}

// FilePolicy says what becomes of a mirror's file.
type FilePolicy int

// What Unmirror does with the mirrors' files.
const (
	Keep FilePolicy = iota
	Remove
)

// Unmirror removes a wish. Its mirrors stop. Their files stay, unless policy is Remove.
func (n *Node) Unmirror(m rule.Mirror, policy FilePolicy) error {
	return n.change(func() error { return n.unmirror(m, policy) })
}

func (n *Node) unmirror(m rule.Mirror, policy FilePolicy) error {
	n.changed = true // a wish of lower precedence may apply now
	is := func(w rule.Mirror) bool { return !w.Deny && w.Host == m.Host && w.Channel == m.Channel }
	if before := len(n.wishes()); before > 0 {
		n.asked, n.cfg.Mirrors = without(n.asked, is), without(n.cfg.Mirrors, is)
		if len(n.wishes()) < before {
			return n.dropUnwanted(policy)
		}
	}
	for _, l := range n.links {
		if i := slices.IndexFunc(l.pushed, func(p pushed) bool { return is(p.Mirror) }); i >= 0 {
			l.pushed = slices.Delete(l.pushed, i, i+1)
			return n.dropUnwanted(policy)
		}
	}
	for _, w := range n.wishes() {
		if w.Covers(m.Host, m.Channel) {
			return fmt.Errorf("unmirror %s/%s: it is mirrored because of %s/%s; take that back instead", m.Host, m.Channel, w.Host, w.Channel)
		}
	}
	return fmt.Errorf("%s/%s is not mirrored; `achbridge status` lists the mirrors%.0w", m.Host, m.Channel, fs.ErrNotExist)
}

// writerOf returns the host that feeds the mirror called name, or will as soon as it offers the
// channel. It returns "" if there is none, or if it is channel of host itself.
func (n *Node) writerOf(name, host, channel string) string {
	if m := n.mirrors[name]; m != nil && (m.Host != host || m.Channel != channel) {
		return m.Host
	}
	for _, w := range slices.Concat(n.wishes(), n.pushed()) {
		exact := !rule.IsPattern(w.Host) && !rule.IsPattern(w.Channel)
		if exact && w.Name(w.Host, w.Channel) == name && (w.Host != host || w.Channel != channel) {
			return w.Host
		}
	}
	return ""
}

// depose takes a command channel away from a writer whose link is silent and that has sent
// nothing within the deadline. A safe frame that is due is put first. depose returns true if
// another writer may write now.
func (n *Node) depose(name, by string) bool {
	m := n.mirrors[name]
	if m == nil || m.link == nil || !m.link.silent || !m.Lost() {
		return false
	}
	l := m.link
	i := slices.IndexFunc(l.pushed, func(p pushed) bool { return p.As == name })
	if i < 0 {
		return false // a wish of this host asks for the writer
	}
	offer := l.pushed[i].offer.ID
	l.pushed = slices.Delete(l.pushed, i, i+1)
	n.log.Warn("writer of a command channel replaced: it is silent past its deadline", "channel", name, "peer", m.Host, "by", by)
	l.send(wire.Refused{ID: offer, Re: wire.TypeOffer, Code: wire.CodeConflict,
		Text: wire.Text(fmt.Sprintf("%s is written by %s since %s was silent past its deadline", name, by, m.Host))})
	n.dropUnwanted(Keep)
	return n.mirrors[name] == nil
}

// part keeps a mirror without a wish until its safe frame has been put: its writer is lost, but
// may be back before the deadline.
func (n *Node) part(m *binding) bool {
	if m.parting = m.Owes(); !m.parting {
		return false
	}
	if m.link != nil {
		n.unsubscribe(m.link, m.subID)
		m.unbind(status.CauseRule, "its writer is gone; the safe frame follows at the deadline")
	}
	return true
}

// bindMirrors makes a mirror and a subscription for every channel that a peer offers and a wish
// asks for. It ends mirrors without a wish.
func (n *Node) bindMirrors() {
	n.dropUnwanted(Keep)
	n.bindAchd()
	mirrored := n.mirrored()
	for _, l := range n.links {
		n.seek(l)
		named := n.named(l)
		for _, c := range n.inTurn(l) {
			if l.full && !named[c.Name] && !mirrored[[2]string{l.host, c.Name}] {
				continue
			}
			w, ok := n.wishFor(l.host, c.Name)
			exact := w.Host == l.host && w.Channel == c.Name
			if !ok || c.Closed && !exact && !mirrored[[2]string{l.host, c.Name}] {
				continue // only a wish that names the channel gets a mirror that says why it is refused
			}
			n.bind(l, c, w)
		}
	}
	for _, l := range n.links {
		n.endGone(l)
	}
}

// endGone ends the subscriptions to channels that the peer of l no longer offers.
func (n *Node) endGone(l *link) {
	for id, in := range l.inbound {
		m := in.m
		if _, ok := l.remote.channels[m.Channel]; !ok {
			n.unsubscribe(l, id)
			m.unbind(status.CauseNoChannel, fmt.Sprintf("%s does not offer %s now", m.Host, m.Channel))
		}
	}
}
