package bridge

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"achbridge/bridge/hubway"
	"achbridge/bridge/ledger"
	"achbridge/bridge/locals"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/send"
	"achbridge/bridge/status"
	"achbridge/bridge/trust"
	"achbridge/localach"
	"achbridge/wire"
)

// export is a peer's subscription to one channel of ours, over the link or through the hub. It belongs to the node's goroutine.
type export struct {
	id        uint32
	channel   string
	qos       rule.QoS
	requested rule.QoS // QoS that the peer requested; rules may grant less
	counters  *ledger.SenderCounters
	reporter  ledger.Reporter
	reader    readerSight

	plane // sends the frames
}

// plane sends the frames of an export. It is a send.Subscription over the link, or a
// hubway.Subscription through the hub.
type plane interface {
	// Requalify changes the quality of service of the export.
	Requalify(qos rule.QoS)
	// Resend sends the newest frame again to a mirror whose newest frame is have.
	Resend(have uint64)
	// TakeReport handles the peer's counters of received frames.
	TakeReport(a wire.FrameCounters)
	// FrameCounters returns the frame counters, and the newest frame that they include.
	FrameCounters() (a ledger.FrameCounters, newest uint64)
	// Show adds the sending state to a status.
	Show(s *status.Subscription)
	// Problem returns why the last attempt to read or send the channel failed; nil if it
	// succeeded.
	Problem() error
	// Stop ends the sending and closes the export's sender counters.
	Stop()
}

// exports are the exports of one link. They belong to the node's goroutine.
type exports struct {
	byID  map[uint32]*export
	order []*export // oldest first
}

// drop ends an export, if there is one with this id.
func (e *exports) drop(id uint32) {
	x := e.byID[id]
	if x == nil {
		return
	}
	x.Stop()
	delete(e.byID, id)
	e.order = slices.DeleteFunc(e.order, func(o *export) bool { return o == x })
}

// dropAll ends all exports.
func (e *exports) dropAll() {
	for id := range e.byID {
		e.drop(id)
	}
}

// hasCommands reports whether an export of the channel has class command. "" means any channel.
func (e *exports) hasCommands(channel string) bool {
	return slices.ContainsFunc(e.order, func(x *export) bool {
		return (channel == "" || x.channel == channel) && x.qos.Class == rule.Command
	})
}

// dropExports ends the peer's subscriptions to a channel. The next catalog informs the peer.
func (l *link) dropExports(channel string) {
	for id, x := range l.exports.byID {
		if x.channel == channel {
			l.catalog.sent.endedSubs[channel] = append(l.catalog.sent.endedSubs[channel], id)
			l.exports.drop(id)
		}
	}
}

// addExport starts an export to the peer. It replaces an export with the same id or of the same
// channel, so a peer has at most one export for each channel.
func (l *link) addExport(m wire.Subscribe, p permitted, c *locals.Channel) {
	l.exports.drop(m.ID)
	for _, old := range slices.Clone(l.exports.order) {
		if old.channel == m.Channel {
			l.exports.drop(old.id)
		}
	}
	b := l.n.shared.senderCounters(l.peer, m.Channel)
	b.Settle(ledger.Reader{Run: l.hello.run, ID: m.Held.ID, Held: ledger.FromWire(m.Held)})
	x := &export{id: m.ID, channel: c.Ring.Name(), qos: p.granted, requested: p.requested, counters: b}
	if l.overHub() {
		x.plane = l.n.shared.publishers.Subscribe(c.Ring, hubway.Request{ID: m.ID, Peer: hubPeer{l}, QoS: p.granted, Have: m.HaveSeq, Counters: b, Copies: c.Copies})
	} else {
		x.plane = l.frames.Subscribe(send.Request{ID: m.ID, Channel: c.Ring, Copies: c.Copies, QoS: p.granted, Have: m.HaveSeq, Counters: b})
	}
	l.exports.byID[x.id] = x
	l.exports.order = append(l.exports.order, x)
}

// sharedExports has the resources that the exports of all links share. It belongs to the node's
// goroutine.
type sharedExports struct {
	copying    ring.Resources     // resources to copy frames of local channels
	publishers *hubway.Publishers // publish channels to the hub
	counters   map[countersKey]*ledger.SenderCounters
}

func newSharedExports(work *sync.WaitGroup, now func() time.Duration) sharedExports {
	return sharedExports{
		copying: ring.Resources{
			Compressor: ring.NewCompressor(), Budget: ring.NewBudget(ring.DefaultBudget), Large: ring.NewSemaphore(),
			Spawn: ring.NewWorkers(work).Start, Now: now,
		},
		counters: make(map[countersKey]*ledger.SenderCounters),
	}
}

// countersKey identifies sender counters: by a peer, and the channel that it reads.
type countersKey struct {
	peer    trust.NodeID
	channel string
}

// maxKeptCounters bounds the number of sender counters kept for channels that peers have read.
const maxKeptCounters = 10000

// senderCounters returns the sender counters of a channel for a peer.
func (s *sharedExports) senderCounters(peer trust.NodeID, channel string) *ledger.SenderCounters {
	key := countersKey{peer, channel}
	b := s.counters[key]
	if b == nil {
		b = &ledger.SenderCounters{}
		if len(s.counters) < maxKeptCounters {
			s.counters[key] = b
		}
	}
	return b
}

// newLocals returns the table of this host's channels.
func (n *Node) newLocals() *locals.Table {
	return locals.New(locals.Config{
		Host: n.cfg.Host, Dir: n.cfg.Dir, Kernel: n.cfg.Kernel, Limit: maxLocals, Copying: &n.shared.copying, Now: n.now, Tick: tick, Log: n.cfg.Log,
		Warn: n.warnings.warn, Facts: n.factsOf, Closing: n.endExports,
	})
}

// factsOf returns the facts about a channel of this host from the node's rules, pushes and
// mirrors.
func (n *Node) factsOf(channel string) locals.Facts {
	f := locals.Facts{
		IsExported: n.cfg.Export.AnyPeer(channel), IsNamed: n.cfg.Export.NamesExactly(channel), IsRelayed: rule.Matches(n.cfg.Relay, channel),
		IsPushed: n.pushes.any(func(p *push) bool { return p.Channel == channel }),
		IsMirror: n.mirrors.hasSource(channel), IsOutput: n.mirrors.isOutput(channel), IsTemporary: strings.HasPrefix(channel, temporaryPrefix), Layout: n.localLayout(channel),
	}
	if m := n.mirrors.byName[channel]; m != nil && m.achd.HasFed() {
		f.UnprovenHost = m.Host
	}
	return f
}

// watch runs changes, which reports changes of channels, until ctx ends. place names where the channels are, for the log.
func (n *Node) watch(ctx context.Context, place string, changes func(context.Context, func(localach.Event)) error) {
	for ctx.Err() == nil {
		err := changes(ctx, func(e localach.Event) {
			if wait := restAfter(n.directoryChanged(e)); wait > 0 {
				pause(ctx, wait)
			}
		})
		if ctx.Err() != nil {
			return
		}
		n.cfg.Log.Error("cannot watch channels, trying again", "dir", place, "err", err)
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
		n.localChanged(m.ChannelName())
	}
}
