package bridge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// maxCatalog is how many channels of one peer a node remembers. maxNamed is how many more
// there may be that a wish names exactly.
const (
	maxCatalog = 10000
	maxNamed   = maxSubscriptions
)

// seekAtOnce is how many channels that had no room before are asked for in one tick.
const seekAtOnce = 20

// catalogBurst is how many channels are sent to a peer at once. The others follow when the
// peer has read these.
const catalogBurst = 10 * catalogPart

// changes returns the difference between what l's peer was told and now, the channels that it
// may read, sorted by name. It records the result as told. If there is too much at once, the
// rest follows at the next tick, or when the peer has read the first part.
func (l *link) changes(now map[string]wire.Channel) wire.Catalog {
	msg := wire.Catalog{Full: l.told == nil}
	if l.told == nil {
		l.told = make(map[string]wire.Channel, len(now))
	}
	room := catalogBurst
	if l.unread() > maxControlBacklog/4 {
		room = 0
	}
	for _, name := range slices.Sorted(maps.Keys(l.told)) {
		if _, still := now[name]; !still && len(msg.Gone) < room {
			msg.Gone = append(msg.Gone, name)
			delete(l.told, name)
		}
	}
	l.behind = len(msg.Gone) == room
	for _, name := range slices.Sorted(maps.Keys(now)) {
		c := now[name]
		if before, ok := l.told[name]; ok && sameChannel(before, c) && before.Layout == c.Layout {
			continue
		}
		if l.behind = len(msg.Channels)+len(msg.Gone) >= room; l.behind {
			break
		}
		msg.Channels = append(msg.Channels, c)
		l.told[name] = c
	}
	return msg
}

// unread is how many bytes of control messages the peer has not read yet.
func (l *link) unread() int {
	l.outMu.Lock()
	defer l.outMu.Unlock()
	return l.outB
}

// learn handles a catalog message of l's peer. It leaves out channels over the limit, except
// those that a wish names.
func (n *Node) learn(l *link, channels []wire.Channel) {
	named := n.named(l)
	for _, c := range channels {
		_, known := l.catalog[c.Name]
		if room := len(l.catalog) < maxCatalog || named[c.Name] && len(l.catalog) < maxCatalog+maxNamed; !known && !room {
			l.leaveOut(c.Name)
			continue
		}
		l.catalog[c.Name] = c
	}
	if l.leftOut > 0 && !l.cut {
		l.cut = true
		l.refusal("channels of a host left out", status.Event{
			Text: fmt.Sprintf("it offers more than %d; name those that you want: achbridge mirror %s/CHANNEL", maxCatalog, l.host),
		})
	}
}

// leaveOut counts a channel for which there is no room, and remembers its name if that fits.
func (l *link) leaveOut(name string) {
	if l.omitted[name] {
		return
	}
	l.leftOut++
	if l.omitted == nil {
		l.omitted = make(map[string]bool)
	}
	if len(l.omitted) < maxCatalog {
		l.omitted[name] = true
	}
}

// notOmitted no longer counts a channel of the peer as left out.
func (l *link) notOmitted(name string) {
	if l.omitted[name] || l.leftOut > len(l.omitted) {
		l.leftOut--
	}
	delete(l.omitted, name)
}

// seekOmitted asks for some of the channels that were left out, once there is room again. The
// peer does not send them by itself, since it has sent them before.
func (n *Node) seekOmitted(l *link) {
	room := min(maxCatalog-len(l.catalog), seekAtOnce)
	for name := range l.omitted {
		if room--; room < 0 {
			return
		}
		l.notOmitted(name)
		l.askFor(name)
	}
}

// askFor makes the peer list a channel once more, if it has the channel.
func (l *link) askFor(name string) {
	l.lastID++
	l.send(wire.Query{ID: l.lastID, Channel: name})
}

// named are the channels of l's peer that a wish names exactly.
func (n *Node) named(l *link) map[string]bool {
	list := make(map[string]bool)
	for _, w := range slices.Concat(n.wishes(), n.pushed()) {
		if w.Host == l.host && !rule.IsPattern(w.Channel) {
			list[w.Channel] = true
		}
	}
	for _, p := range n.peeks {
		if p.Host == l.host {
			list[p.Channel] = true
		}
	}
	return list
}

// seek asks once for each channel that a wish names and that was left out because no wish
// named it when the peer listed it.
func (n *Node) seek(l *link) {
	if !l.cut {
		return
	}
	for name := range n.named(l) {
		if _, known := l.catalog[name]; known || l.sought[name] {
			continue
		}
		if l.sought == nil {
			l.sought = make(map[string]bool)
		}
		l.sought[name] = true
		l.askFor(name)
	}
}

// inTurn is the catalog of l's peer in the order in which its channels get mirrors: first
// those that a wish names, then the others by size. So huge channels do not take the room of
// small ones.
func (n *Node) inTurn(l *link) []wire.Channel {
	named := n.named(l)
	rank := func(c wire.Channel) int {
		if named[c.Name] {
			return 0
		}
		return 1
	}
	return slices.SortedFunc(maps.Values(l.catalog), func(a, b wire.Channel) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.FrameCount*a.FrameSize, b.FrameCount*b.FrameSize), cmp.Compare(a.Name, b.Name))
	})
}
