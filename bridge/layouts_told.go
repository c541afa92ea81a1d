package bridge

import (
	"fmt"
	"slices"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/rule"
	"achbridge/wire"
)

// ChannelLayout says what the frames of the channels hold whose name matches a pattern.
type ChannelLayout struct {
	Channels string // a pattern, as in path.Match, of this host's channels, of mirrors, or as HOST/CHANNEL
	Packed   []byte // as layout.Pack returns it; nil: it is not known

	hash wire.Hash
	fit  *layout.Fit // nil as Packed is
}

// prepared are the layouts with what is made of them.
func prepared(list []ChannelLayout) []ChannelLayout {
	list = slices.Clone(list)
	for i := range list {
		l, err := layout.Unpack(list[i].Packed)
		if err != nil {
			list[i].Packed = nil
			continue
		}
		fit := l.Fit()
		list[i].hash, list[i].fit = layout.Hash(list[i].Packed), &fit
	}
	return list
}

// layoutFor is the layout of a channel of this host, nil without one. A mirror has that of its
// origin, which is passed on.
func (n *Node) layoutFor(c *local) *ChannelLayout {
	if c.mirror {
		return nil
	}
	for i := range n.cfg.Layouts {
		if rule.Match(n.cfg.Layouts[i].Channels, c.name) {
			return &n.cfg.Layouts[i]
		}
	}
	return nil
}

// layoutHash is the hash of a channel's layout, as the catalog has it.
func (n *Node) layoutHash(c *local) wire.Hash {
	if m := n.mirrors[c.name]; c.mirror && m != nil {
		return m.described().hash
	}
	if c.layout == nil {
		return wire.Hash{}
	}
	return c.layout.hash
}

// A peer gets 1 MiB of layouts at once, and then 100 KiB a second, so that its questions take no
// link from the frames.
const (
	layoutUnit  = 1 << 10
	layoutBurst = 1024
	layoutEvery = 10 * time.Millisecond
)

// describe answers a peer that asks what the frames of a channel hold. It says the same of a
// channel without a layout, and of one that the peer may not read.
func (n *Node) describe(l *link, m wire.Describe) {
	c, told := n.locals[m.Channel], l.told[m.Channel].Layout
	switch {
	case told == wire.Hash{} || c == nil || n.layoutHash(c) != told:
		l.refuseLayout(m, wire.CodeAbsent, m.Channel+": it has no layout, or another one by now")
	case !l.describing.has(n.now()) || l.unread() > maxControlBacklog/4 || l.passing >= layoutsAtOnce:
		l.refuseLayout(m, wire.CodeLimit, fmt.Sprintf("%s gives no more layouts at once: ask again in some seconds", n.cfg.Host))
	case c.layout != nil:
		l.sendLayout(m, c.layout.Packed)
	default:
		n.passLayout(l, m, n.mirrors[m.Channel])
	}
}

// passLayout answers a peer that asks for the layout of a mirror, which the mirror's origin is asked
// for if it is not here.
func (n *Node) passLayout(l *link, m wire.Describe, of *binding) {
	found, q := n.wantLayout(of.described())
	answer := func(packed []byte, why string) {
		if packed == nil {
			l.refuseLayout(m, wire.CodeAbsent, fmt.Sprintf("%s has not got it from %s: %s", n.cfg.Host, of.Host, why))
			return
		}
		l.sendLayout(m, packed)
	}
	if q == nil {
		answer(found.Packed, found.Why)
		return
	}
	l.passing++
	q.then = append(q.then, func() {
		l.passing--
		answer(q.packed, q.why)
	})
}

func (l *link) sendLayout(m wire.Describe, packed []byte) {
	l.describing.use(l.n.now(), 1+len(packed)/layoutUnit)
	l.send(wire.Layout{ID: m.ID, Packed: packed})
}

func (l *link) refuseLayout(m wire.Describe, code wire.Code, text string) {
	l.send(wire.Refused{ID: m.ID, Re: wire.TypeDescribe, Code: code, Text: wire.Text(text)})
}
