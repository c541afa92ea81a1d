package bridge

import (
	"fmt"
	"slices"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// writerOf returns the host that writes the mirror called name, or will as soon as it
// offers the channel, unless it is host with channel; "" when there is none.
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

// depose takes a command channel from a writer that is lost though its link is still
// there: the link is silent, and nothing came within the deadline. A safe frame that
// is owed goes before. It reports whether another may write now.
func (n *Node) depose(name, by string) bool {
	m := n.mirrors[name]
	if m == nil || m.link == nil || !m.link.silent || !m.Lost() {
		return false
	}
	l := m.link
	i := slices.IndexFunc(l.pushed, func(p pushed) bool { return p.As == name })
	if i < 0 {
		return false // it was wished for here
	}
	offer := l.pushed[i].offer.ID
	l.pushed = slices.Delete(l.pushed, i, i+1)
	n.log.Warn("writer of a command channel replaced: it is silent past its deadline", "channel", name, "peer", m.Host, "by", by)
	l.send(wire.Refused{ID: offer, Re: wire.TypeOffer, Code: wire.CodeConflict,
		Text: wire.Text(fmt.Sprintf("%s is written by %s since %s was silent past its deadline", name, by, m.Host))})
	n.dropUnwanted(Keep)
	return n.mirrors[name] == nil
}

// part keeps a mirror that nobody wants any more until the safe frame that it owes
// has been put: its writer is lost, and may be back before the deadline.
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
