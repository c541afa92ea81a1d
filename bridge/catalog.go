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

// maxCatalog is the number of channels of one peer that a node stores. maxNamed is the number of
// further channels that it stores if a request names them exactly.
const (
	maxCatalog = 10000
	maxNamed   = maxSubscriptions
)

// requestAtOnce is the number of omitted channels that the node requests in one tick.
const requestAtOnce = 20

// catalogBurst is the number of channels sent to a peer at once. The node sends more when the peer
// has read them.
const catalogBurst = 10 * catalogPart

// remoteCatalog has the channels that a peer advertises. It belongs to the node's goroutine.
type remoteCatalog struct {
	channels     map[string]wire.Channel // nil before the peer's first catalog
	omitted      map[string]bool         // names of channels that exceeded the limit; at most maxCatalog names are stored
	omittedCount int                     // number of channels that exceeded the limit; some may count twice
	isReported   bool                    // the log has a warning about omitted channels
	requested    map[string]bool         // omitted channels that were requested from the peer
}

// reset removes all entries before a full catalog.
func (c *remoteCatalog) reset() {
	*c = remoteCatalog{channels: make(map[string]wire.Channel), isReported: c.isReported}
}

// remove deletes a channel that the peer no longer offers.
func (c *remoteCatalog) remove(name string) {
	if _, known := c.channels[name]; !known {
		c.include(name)
	}
	delete(c.channels, name)
	delete(c.requested, name)
}

// omit counts a channel that exceeds the limit, and stores its name if there are fewer than
// maxCatalog names.
func (c *remoteCatalog) omit(name string) {
	if c.omitted[name] {
		return
	}
	c.omittedCount++
	if c.omitted == nil {
		c.omitted = make(map[string]bool)
	}
	if len(c.omitted) < maxCatalog {
		c.omitted[name] = true
	}
}

// include stops counting a channel as omitted.
func (c *remoteCatalog) include(name string) {
	if c.omitted[name] || c.omittedCount > len(c.omitted) {
		c.omittedCount--
	}
	delete(c.omitted, name)
}

// advertisedChannels has the channels of this host that a peer was sent. It belongs to the node's
// goroutine.
type advertisedChannels struct {
	channels  map[string]wire.Channel // nil before the first catalog
	isPartial bool                    // the peer may read more channels than were sent
	endedSubs map[string][]uint32     // ids of the peer's subscriptions that ended here since the last catalog, by channel
	refused   map[string]bool         // channels that this node's rules refused to the peer
}

// admit makes the next catalog list a refused channel again, so that the peer subscribes again.
func (a *advertisedChannels) admit(channel string) {
	delete(a.refused, channel)
	delete(a.channels, channel)
}

// sendCatalog sends the peer the changes in the set of channels that it may read.
func (n *Node) sendCatalog(l *link) {
	now := n.offered(l)
	l.endUntold(now)
	msg := l.changes(now)
	for _, part := range splitCatalog(msg) {
		l.send(part)
	}
}

// endUntold sends Refused for each of the peer's subscriptions that ended here without a change in
// the catalog: the channel was opened again and is the same. The peer then subscribes again.
func (l *link) endUntold(now map[string]wire.Channel) {
	for name, ids := range l.catalog.sent.endedSubs {
		before, wasSent := l.catalog.sent.channels[name]
		if c, still := now[name]; !wasSent || !still || !sameChannel(before, c) {
			continue
		}
		for _, id := range ids {
			l.send(wire.Refused{ID: id, Re: wire.TypeSubscribe, Code: wire.CodeEpoch, Text: wire.Text(name + ": the channel was opened again")})
		}
	}
	clear(l.catalog.sent.endedSubs)
}

// catalogPart is the largest number of channels in one catalog message. Even with the longest
// names such a message is far smaller than 1 MiB.
const catalogPart = 1000

func splitCatalog(c wire.Catalog) []wire.Catalog {
	if !c.Full && len(c.Channels) == 0 && len(c.Gone) == 0 {
		return nil
	}
	var parts []wire.Catalog
	for len(c.Channels) > catalogPart || len(c.Gone) > catalogPart {
		k, g := min(len(c.Channels), catalogPart), min(len(c.Gone), catalogPart)
		parts = append(parts, wire.Catalog{Full: c.Full, Channels: c.Channels[:k], Gone: c.Gone[:g]})
		c = wire.Catalog{Channels: c.Channels[k:], Gone: c.Gone[g:]}
	}
	return append(parts, c)
}

// sameChannel reports whether a peer can keep its subscriptions when channel a becomes b.
func sameChannel(a, b wire.Channel) bool {
	if (a.Origin == nil) != (b.Origin == nil) || a.Origin != nil && *a.Origin != *b.Origin {
		return false
	}
	return a.Closed == b.Closed && a.Epoch == b.Epoch && a.FrameCount == b.FrameCount && a.FrameSize == b.FrameSize && a.Largest == b.Largest
}

// sameClock reports whether a and b are the same, or both nil.
func sameClock(a, b *wire.Clock) bool { return a == b || a != nil && b != nil && *a == *b }

// isClockOnly reports whether the peer advertises c again only since its clock has moved.
func (l *link) isClockOnly(c wire.Channel) bool {
	known, ok := l.catalog.remote.channels[c.Name]
	return ok && !sameClock(known.Clock, c.Clock) && sameChannel(known, c) && known.Layout == c.Layout
}

// offered returns the channels that the peer may read, by name. It also returns, with Closed set,
// the channels that only other hosts may read. So users of the peer can see why they lack these
// channels.
func (n *Node) offered(l *link) map[string]wire.Channel {
	channels := make(map[string]wire.Channel)
	for name, c := range n.locals.All() {
		if !c.IsOpen() || c.Reason != "" && n.pushes.to(l, name) == nil {
			continue
		}
		origin := n.mirrors.originOf(c)
		if origin != nil && origin.Node == l.peer {
			continue // the peer is the origin
		}
		if origin != nil && !n.mirrors.hasSource(name) {
			continue // the origin is unknown yet, and without it the peer could not detect a loop
		}
		g := c.Ring.Geometry()
		_, denied := n.permit(l, name, rule.QoS{})
		channel := wire.Channel{
			Name: name, FrameCount: g.FrameCount, FrameSize: g.FrameSize,
			Epoch: c.Ring.Epoch(), Origin: origin, Closed: denied != nil, Largest: c.LargestFrame(n.now()), Kernel: c.IsKernel,
		}
		if denied == nil {
			channel.Layout = n.mirrors.layoutHash(c)
			channel.Clock = n.mirrors.passedClock(name)
		}
		channels[name] = channel
	}
	return channels
}

// takeBack informs the peer that a channel is no longer offered. The peer must learn that its
// subscription has ended, even if the next catalog lists the channel again with the same epoch.
func (l *link) takeBack(name string) {
	if _, ok := l.catalog.sent.channels[name]; ok {
		delete(l.catalog.sent.channels, name)
		l.send(wire.Catalog{Gone: []string{name}})
	}
}

// changes returns the difference between the channels that l's peer was sent and now, the channels
// that it may read, sorted by name. It records the returned channels as sent. If there are more
// than catalogBurst, the rest follows at the next tick, or when the peer has read the first part.
func (l *link) changes(now map[string]wire.Channel) wire.Catalog {
	msg := wire.Catalog{Full: l.catalog.sent.channels == nil}
	if l.catalog.sent.channels == nil {
		l.catalog.sent.channels = make(map[string]wire.Channel, len(now))
	}
	room := catalogBurst
	if l.out.unread() > maxControlBacklog/4 {
		room = 0
	}
	for _, name := range slices.Sorted(maps.Keys(l.catalog.sent.channels)) {
		if _, still := now[name]; !still && len(msg.Gone) < room {
			msg.Gone = append(msg.Gone, name)
			delete(l.catalog.sent.channels, name)
		}
	}
	l.catalog.sent.isPartial = len(msg.Gone) == room
	for _, name := range slices.Sorted(maps.Keys(now)) {
		c := now[name]
		if before, ok := l.catalog.sent.channels[name]; ok && sameChannel(before, c) && before.Layout == c.Layout && sameClock(before.Clock, c.Clock) {
			continue
		}
		if l.catalog.sent.isPartial = len(msg.Channels)+len(msg.Gone) >= room; l.catalog.sent.isPartial {
			break
		}
		msg.Channels = append(msg.Channels, c)
		l.catalog.sent.channels[name] = c
	}
	return msg
}

// learn handles a catalog message of l's peer. It omits channels over the limit, except those that
// a request names.
func (l *link) learn(channels []wire.Channel, named map[string]bool) {
	for _, c := range channels {
		_, known := l.catalog.remote.channels[c.Name]
		if room := len(l.catalog.remote.channels) < maxCatalog || named[c.Name] && len(l.catalog.remote.channels) < maxCatalog+maxNamed; !known && !room {
			l.catalog.remote.omit(c.Name)
			continue
		}
		l.catalog.remote.channels[c.Name] = c
	}
	if l.catalog.remote.omittedCount > 0 && !l.catalog.remote.isReported {
		l.catalog.remote.isReported = true
		l.refusal("channels of a host left out", status.Event{
			Text: fmt.Sprintf("it offers more than %d; name those that you want: achbridge mirror %s/CHANNEL", maxCatalog, l.host),
		})
	}
}

// requestOmitted requests some of the omitted channels when the catalog has room again. The peer does
// not advertise unchanged channels again by itself.
func (l *link) requestOmitted() {
	room := min(maxCatalog-len(l.catalog.remote.channels), requestAtOnce)
	for name := range l.catalog.remote.omitted {
		if room--; room < 0 {
			return
		}
		l.catalog.remote.include(name)
		l.askFor(name)
	}
}

// askFor makes the peer advertise a channel once more, if it has the channel.
func (l *link) askFor(name string) {
	l.queries.lastID++
	l.send(wire.Query{ID: l.queries.lastID, Channel: name})
}

// requestNamed requests each omitted channel that a mirror request names. The request may be newer than
// the peer's catalog. seek requests each channel only once.
func (l *link) requestNamed(named map[string]bool) {
	if !l.catalog.remote.isReported {
		return
	}
	for name := range named {
		if _, known := l.catalog.remote.channels[name]; known || l.catalog.remote.requested[name] {
			continue
		}
		if l.catalog.remote.requested == nil {
			l.catalog.remote.requested = make(map[string]bool)
		}
		l.catalog.remote.requested[name] = true
		l.askFor(name)
	}
}

// inTurn returns the catalog of l's peer in the order in which its channels get mirrors. Channels
// that a request names are first, then the others from small to large. So huge channels do not use
// up the limits before small ones.
func (l *link) inTurn(named map[string]bool) []wire.Channel {
	rank := func(c wire.Channel) int {
		if named[c.Name] {
			return 0
		}
		return 1
	}
	return slices.SortedFunc(maps.Values(l.catalog.remote.channels), func(a, b wire.Channel) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.FrameCount*a.FrameSize, b.FrameCount*b.FrameSize), cmp.Compare(a.Name, b.Name))
	})
}
