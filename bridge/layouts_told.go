package bridge

import (
	"fmt"
	"slices"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/rule"
	"achbridge/wire"
)

// ChannelLayout says what the frames of this host's own channels hold whose name matches a pattern.
type ChannelLayout struct {
	Channels string // a pattern, as in path.Match
	Packed   []byte // as layout.Pack returns it; nil: it is not known

	hash wire.Hash
}

// hashed are the layouts with their hashes.
func hashed(list []ChannelLayout) []ChannelLayout {
	list = slices.Clone(list)
	for i := range list {
		if list[i].Packed != nil {
			list[i].hash = layout.Hash(list[i].Packed)
		}
	}
	return list
}

// layoutFor is the layout of a channel of this host, nil without one. A mirror has that of its
// origin, which tells it to whom it wants.
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

// layoutHash is the hash of the channel's layout, as the catalog has it.
func (l *local) layoutHash() wire.Hash {
	if l.layout == nil {
		return wire.Hash{}
	}
	return l.layout.hash
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
	refuse := func(code wire.Code, text string) {
		l.send(wire.Refused{ID: m.ID, Re: wire.TypeDescribe, Code: code, Text: wire.Text(text)})
	}
	c, told := n.locals[m.Channel], l.told[m.Channel].Layout
	switch {
	case told == wire.Hash{} || c == nil || c.layoutHash() != told:
		refuse(wire.CodeAbsent, m.Channel+": it has no layout, or another one by now")
	case !l.describing.has(n.now()) || l.unread() > maxControlBacklog/4:
		refuse(wire.CodeLimit, fmt.Sprintf("%s gives no more layouts at once: ask again in some seconds", n.cfg.Host))
	default:
		l.describing.use(n.now(), 1+len(c.layout.Packed)/layoutUnit)
		l.send(wire.Layout{ID: m.ID, Packed: c.layout.Packed})
	}
}
