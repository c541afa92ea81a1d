package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"achbridge/bridge/layouts"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// local is one channel of this host that peers may be allowed to read. It
// belongs to the node's goroutine; the channel itself may be used by links.
type local struct {
	name   string
	ch     *localach.Channel // nil when it cannot be used
	copies *ring.Snapshots   // of its large frames
	tag    localach.Tag      // of the mirror it is; zero for others
	mirror bool              // a mirror by its tag, or an adopted channel that a mirror writes into
	reason string            // why it is not offered; empty: it is offered
	cause  status.Cause      // the cause of reason
	again  time.Duration     // when to try again to open it; 0: never
	check  time.Duration     // when to check again that its file has not changed
	left   bool              // it is not open because there are too many
	before *localach.Channel // closed: what the file was, which is being made anew; nil: it is not
	layout *layouts.Rule     // of its frames; nil: none is known here, or it is a mirror

	largest int           // bytes of the largest frame seen, if above the nominal size
	sized   time.Duration // when the ring was last searched for it; 0: never
}

// sizeAgain is how long the size of a channel's largest frame is kept before the ring is
// searched again.
const sizeAgain = time.Second

// largestFrame is the size of the largest frame seen in an open channel, in bytes; 0 if none
// was above the nominal size.
func (l *local) largestFrame(now time.Duration) int {
	if l.sized == 0 || now >= l.sized+sizeAgain {
		l.sized = max(now, 1)
		if n := min(l.ch.LargestFrame(), wire.MaxFrame); n > l.ch.Geometry().FrameSize {
			l.largest = max(l.largest, n)
		}
	}
	return l.largest
}

func (l *local) close() {
	if l.ch != nil {
		l.ch.Close()
	}
}

// due reports whether to open the channel again: its file has changed, or it could not be
// used and it is time for another try.
func (l *local) due(now time.Duration) bool {
	if l.ch != nil {
		return l.ch.Check() != nil
	}
	return l.again != 0 && now >= l.again
}

// openAgain is how often a channel that cannot be used is tried again.
const openAgain = time.Second

// localChanged opens a channel that appeared, was replaced or got damaged, and forgets a
// channel that is gone. Subscriptions to the old channel end. Peers subscribe again when they
// see the new epoch in the catalog.
func (n *Node) localChanged(name string) {
	n.planPush(name)
	old := n.locals[name]
	fresh := n.openLocal(name, old)
	if fresh == nil || fresh.mirror {
		n.unplanPush(name)
	}
	if old != nil && fresh != nil && old.ch != nil && fresh.ch != nil && old.ch.Epoch() == fresh.ch.Epoch() && old.ch.Check() == nil {
		fresh.close()
		n.changed = n.changed || old.mirror != fresh.mirror
		old.mirror, old.reason, old.cause, old.layout = fresh.mirror, fresh.reason, fresh.cause, fresh.layout
		return
	}
	if old != nil {
		for _, l := range n.links {
			l.dropExports(name)
			l.takeBack(name)
		}
		n.shut(old)
	}
	delete(n.locals, name)
	if fresh != nil {
		n.locals[name] = fresh
		if fresh.ch != nil {
			if n.opened++; n.opened > n.mayOpen {
				n.leaveOut(fresh)
			}
		}
	}
	n.changed = true
}

// takeBack tells the peer that a channel is no longer offered. The peer needs to know that
// its subscription has ended, even if the next catalog lists the channel again in the same
// life.
func (l *link) takeBack(name string) {
	if _, ok := l.advertised.channels[name]; ok {
		delete(l.advertised.channels, name)
		l.send(wire.Catalog{Gone: []string{name}})
	}
}

// openLocal opens name, or says why it is not offered; nil when there is no
// such channel.
func (n *Node) openLocal(name string, old *local) *local {
	l := &local{name: name}
	if !n.concerns(name) {
		l.reason, l.cause = "not exported: no --export pattern matches", status.CauseExportRule
		return l
	}
	if m := n.mirrors[name]; m != nil && m.achd.HasFed() {
		l.mirror, l.reason, l.cause = true, "it comes from "+m.Host+" without authentication: it is not offered to others", status.CauseExportRule
		return l
	}
	ch, err := n.reopen(name, old)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		if err = ch.Check(); err != nil {
			l.tag = ch.Tag()
			ch.Close()
		}
	}
	if errors.Is(err, localach.ErrForeign) || errors.Is(err, localach.ErrCorrupt) && !unready(err) {
		err = fmt.Errorf("%w; %s", err, n.whatHelps(l, err))
	}
	if err != nil {
		l.reason, l.cause, l.again = err.Error(), causeOf(err), n.now()+openAgain+n.spread()
		if errors.Is(err, fs.ErrPermission) {
			l.reason = "no permission: readers need write permission too (chmod 0660 and a common group)"
		}
		if unready(err) && old != nil {
			l.before = cmp.Or(old.before, old.ch)
		}
		if unready(err) && (old == nil || old.ch != nil) {
			l.reason, l.again = "it is being made", n.now()+tick
		} else if old == nil || old.reason != l.reason {
			n.warnings.warn("channel cannot be used", status.Event{Kind: status.EventUnusable, Channel: name, Text: l.reason}, "err", err)
		}
		return l
	}
	l.tag = ch.Tag()
	_, meta := mirror.MetaOf(name, l.tag)
	l.mirror = l.tag != (localach.Tag{}) && !meta || n.knowsSource(name)
	if meta && !n.cfg.Export.NamesExactly(name) {
		ch.Close()
		l.reason = "it tells of a mirror here, by this host's clock; only an --export of exactly this name offers it"
		return l
	}
	if l.mirror && (!rule.Matches(n.cfg.Relay, name) || strings.HasPrefix(name, peekPrefix)) {
		ch.Close()
		l.reason, l.cause = "it is a mirror; --relay offers mirrors again", status.CauseExportRule
		return l
	}
	if why := mirror.Unsendable(ch.Geometry()); why != "" {
		ch.Close()
		l.reason, l.cause = why, status.CauseLimit
		return l
	}
	l.ch, l.copies = ch, ring.NewSnapshots(ch, &n.copying)
	if !l.mirror {
		l.layout = n.cfg.Layouts.ForLocal(name)
	}
	if !l.mirror && !n.cfg.Export.AnyPeer(name) {
		l.reason, l.cause = "only pushed: no --export pattern matches", status.CauseExportRule
	}
	return l
}

// unready reports whether err means that libach is just creating the channel.
func unready(err error) bool {
	return errors.Is(err, localach.ErrHalfCreated) || errors.Is(err, localach.ErrTruncated)
}

// concerns reports whether peers may read or write a channel. Other channels are not opened.
func (n *Node) concerns(name string) bool {
	for _, p := range n.pushes {
		if p.Channel == name {
			return true
		}
	}
	return n.cfg.Export.AnyPeer(name) || rule.Matches(n.cfg.Relay, name)
}

// reopen opens a channel so that its epoch differs from the one before when
// the same file was initialised again in place.
func (n *Node) reopen(name string, old *local) (*localach.Channel, error) {
	switch {
	case old == nil:
	case old.before != nil:
		return old.before.ReopenAnew()
	case old.ch != nil && errors.Is(old.ch.Check(), localach.ErrReinitialised):
		return old.ch.Reopen()
	}
	return n.cfg.Dir.TryOpen(name)
}

// offered returns the channels that the peer may read, by name. It also returns, marked, the
// channels that only other hosts may read, so that users there see why they lack them.
func (n *Node) offered(l *link) map[string]wire.Channel {
	channels := make(map[string]wire.Channel, len(n.locals))
	for name, c := range n.locals {
		if c.ch == nil || c.reason != "" && n.pushTo(l, name) == nil {
			continue
		}
		origin := n.originOf(c)
		if origin != nil && origin.Node == l.peer {
			continue // it is the peer's own
		}
		if origin != nil && !n.knowsSource(name) {
			continue // without its origin the peer could not detect a loop
		}
		g := c.ch.Geometry()
		_, denied := n.permit(l, name, rule.QoS{})
		told := wire.Channel{
			Name: name, FrameCount: g.FrameCount, FrameSize: g.FrameSize,
			Epoch: c.ch.Epoch(), Origin: origin, Closed: denied != nil, Largest: c.largestFrame(n.now()),
		}
		if denied == nil {
			told.Layout = n.layoutHash(c)
		}
		channels[name] = told
	}
	return channels
}

// originOf is the origin of a relayed mirror; nil for a channel of this host.
func (n *Node) originOf(c *local) *wire.Origin {
	m := n.mirrors[c.name]
	switch {
	case !c.mirror:
		return nil
	case m == nil:
		return &wire.Origin{Node: c.tag.Node}
	case m.origin.Origin != nil:
		return m.origin.Origin
	}
	return &wire.Origin{Node: m.from.node, Host: m.Host, Channel: m.Channel}
}

// adopted updates the state of an adopted channel when m begins or ends to write into it. The
// file itself does not show that.
func (n *Node) adopted(m *binding) {
	if !m.OwnsFile() && m.from != (source{}) || m.achd.HasFed() {
		n.localChanged(m.Name)
	}
}

// knowsSource reports whether a mirror has had a subscription since the daemon started. The
// file alone does not say which channel it mirrors.
func (n *Node) knowsSource(name string) bool {
	m := n.mirrors[name]
	return m != nil && m.from != source{}
}

// sendCatalog sends the peer the changes in the channels that it may read.
func (n *Node) sendCatalog(l *link) {
	now := n.offered(l)
	l.endUntold(now)
	msg := l.changes(now)
	for _, part := range splitCatalog(msg) {
		l.send(part)
	}
}

// endUntold tells the peer which of its subscriptions ended here without a change in the
// catalog, since the channel was opened again and is the same. The peer then subscribes again.
func (l *link) endUntold(now map[string]wire.Channel) {
	for name, ids := range l.advertised.ended {
		before, told := l.advertised.channels[name]
		if c, still := now[name]; !told || !still || !sameChannel(before, c) {
			continue
		}
		for _, id := range ids {
			l.send(wire.Refused{ID: id, Re: wire.TypeSubscribe, Code: wire.CodeEpoch, Text: wire.Text(name + ": the channel was opened anew")})
		}
	}
	clear(l.advertised.ended)
}

// catalogPart is how many channels one catalog message carries at most: far
// below 1 MiB with the longest names.
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

// sameChannel reports whether a peer's subscriptions have no reason to begin anew.
func sameChannel(a, b wire.Channel) bool {
	if (a.Origin == nil) != (b.Origin == nil) || a.Origin != nil && *a.Origin != *b.Origin {
		return false
	}
	return a.Closed == b.Closed && a.Epoch == b.Epoch && a.FrameCount == b.FrameCount && a.FrameSize == b.FrameSize && a.Largest == b.Largest
}

// readable returns the channel that a peer asks for, nil when it is not offered to it.
func (n *Node) readable(l *link, name string) *local {
	c := n.locals[name]
	if _, ok := l.advertised.channels[name]; !ok || c == nil || c.ch == nil {
		return nil
	}
	return c
}

// whatHelps is the cure for a channel of this host that the node cannot use. A mirror that is corrupt since its daemon was
// killed while it wrote needs none: mirrorLook replaces its file.
func (n *Node) whatHelps(l *local, err error) string {
	if errors.Is(err, localach.ErrForeign) {
		return fmt.Sprintf("its own programs can use it: run the achd that belongs to them, and mirror achd://%s/%s elsewhere", n.cfg.Host, l.name)
	}
	if errors.Is(err, localach.ErrDirty) && l.tag != (localach.Tag{}) {
		return "it is a mirror, and is being healed: its file is made anew as soon as its origin is heard"
	}
	return fmt.Sprintf("end the programs that use it, then `achbridge channel rm %s`: its publisher creates it again", l.name)
}
