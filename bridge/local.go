package bridge

import (
	"context"
	"strings"
	"time"

	"achbridge/bridge/locals"
	"achbridge/bridge/rule"
	"achbridge/localach"
)

// newLocals returns the table of this host's channels.
func (n *Node) newLocals() *locals.Table {
	return locals.New(locals.Config{
		Host: n.cfg.Host, Dir: n.cfg.Dir, Limit: maxLocals, Copying: &n.shared.copying, Now: n.now, Tick: tick, Log: n.cfg.Log,
		Warn: n.warnings.warn, Facts: n.factsOf, Closing: n.endExports,
	})
}

// factsOf returns the facts about a channel of this host from the node's rules, pushes and
// mirrors.
func (n *Node) factsOf(channel string) locals.Facts {
	f := locals.Facts{
		IsExported: n.cfg.Export.AnyPeer(channel), IsNamed: n.cfg.Export.NamesExactly(channel), IsRelayed: rule.Matches(n.cfg.Relay, channel),
		IsPushed: n.pushes.any(func(p *push) bool { return p.Channel == channel }),
		IsMirror: n.mirrors.hasSource(channel), IsOutput: n.mirrors.isOutput(channel), IsTemporary: strings.HasPrefix(channel, temporaryPrefix), Layout: n.cfg.Layouts.ForLocal(channel),
	}
	if m := n.mirrors.byName[channel]; m != nil && m.achd.HasFed() {
		f.UnprovenHost = m.Host
	}
	return f
}

// watch handles the changes in the channel directory until ctx ends.
func (n *Node) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.cfg.Source.Changes(ctx, func(e localach.Event) {
			if wait := restAfter(n.directoryChanged(e)); wait > 0 {
				pause(ctx, wait)
			}
		})
		if ctx.Err() != nil {
			return
		}
		n.cfg.Log.Error("cannot watch channels, trying again", "dir", string(n.cfg.Dir), "err", err)
		pause(ctx, time.Second)
	}
}

// slowChange is the time that the node may take for a changed channel without a pause afterwards.
const slowChange = 5 * time.Millisecond

// restAfter returns the pause before the next change of the channel directory. Without it, a huge
// channel that is replaced continuously would keep the node busy.
func restAfter(took time.Duration) time.Duration {
	if took < slowChange {
		return 0
	}
	return rest(took)
}

// directoryChanged lets the node handle an event. It returns how long the node took.
func (n *Node) directoryChanged(e localach.Event) (took time.Duration) {
	n.loop.call(func() {
		began := n.now()
		if !n.locals.Handle(e) {
			n.localChanged(e.Name)
		}
		took = n.now() - began
	})
	return took
}

// localChanged updates the table of channels. It ends the subscriptions to a channel that was
// replaced; peers subscribe again when they see the new epoch in the catalog.
func (n *Node) localChanged(name string) {
	n.pushes.planFor(name)
	n.checkMuxFiles(name)
	if n.locals.Update(name) {
		n.loop.changed()
	}
	if c := n.locals.Get(name); c == nil || c.IsMirror {
		n.pushes.unplan(name)
	}
}

// endExports ends the subscriptions of all peers to a channel.
func (n *Node) endExports(channel string) {
	for _, l := range n.links {
		l.dropExports(channel)
		l.takeBack(channel)
	}
}

// readable returns the channel with the given name, nil if the peer is not offered it.
func (n *Node) readable(l *link, name string) *locals.Channel {
	c := n.locals.Get(name)
	if _, ok := l.catalog.sent.channels[name]; !ok || !c.IsOpen() {
		return nil
	}
	return c
}

// adopted updates the state of an adopted channel when m starts or stops writing into it. The file
// itself does not show that.
func (n *Node) adopted(m *binding) {
	if !m.OwnsFile() && m.from != (source{}) || m.achd.HasFed() {
		n.localChanged(m.Name)
	}
}
