package bridge

import (
	"slices"

	"achbridge/bridge/hubway"
	"achbridge/bridge/ledger"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// export sends one channel of ours to one peer, over the link or through the hub. The link's mu guards it.
type export struct {
	id      uint32
	channel string
	epoch   uint64
	qos     rule.QoS
	asked   rule.QoS // what the peer asked for; rules may grant less
	book    *ledger.Book
	teller  ledger.Teller
	reader  readerSight

	plane plane
	sub   *subscription // plane, if that is the link; else nil
}

// plane sends the frames of an export: a subscription over the link, a hubway.Subscription through the hub. All methods require
// the link's mu.
type plane interface {
	// Requalify serves the export by another quality of service.
	Requalify(qos rule.QoS)
	// Owe sends the newest frame once more to a mirror that has only frame have.
	Owe(have uint64)
	// Hear takes the peer's account of what it received.
	Hear(a wire.Account)
	// Accounts returns the frame counters, and the newest frame that they include. inFlight: packets of the export are on
	// their way.
	Accounts(inFlight bool) (a ledger.Accounts, newest uint64)
	// Show adds the state of the sending to a status.
	Show(s *status.Subscription)
	// Trouble returns why the last try to read or to send the channel failed; nil if none did.
	Trouble() error
	// Stop ends the sending and closes the export's book.
	Stop()
}

// exports are the exports of one link.
type exports struct {
	byID  map[uint32]*export
	order []*export // in the order in which they began
}

func (e *exports) add(x *export) {
	e.byID[x.id] = x
	e.order = append(e.order, x)
}

// sub returns the subscription over the link with this id, nil for none.
func (e *exports) sub(id uint32) *subscription {
	if x := e.byID[id]; x != nil {
		return x.sub
	}
	return nil
}

// dropExport ends an export. l.mu must be held.
func (l *link) dropExport(id uint32) {
	x := l.exports.byID[id]
	if x == nil {
		return
	}
	x.plane.Stop()
	delete(l.exports.byID, id)
	for i := range l.exports.order {
		if l.exports.order[i] == x {
			l.exports.order = append(l.exports.order[:i:i], l.exports.order[i+1:]...)
			break
		}
	}
}

// dropExports ends the peer's subscriptions to a channel; the next catalog says why.
func (l *link) dropExports(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, x := range l.exports.byID {
		if x.channel == channel {
			l.advertised.ended[channel] = append(l.advertised.ended[channel], id)
			l.dropExport(id)
		}
	}
}

func (l *link) dropAllExports() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.exports.byID {
		l.dropExport(id)
	}
}

// addExport starts an export to the peer, in place of one with the same id or of the same channel: a peer has no more of them
// than we offer channels.
func (l *link) addExport(m wire.Subscribe, p permitted, c *local) {
	l.mu.Lock()
	l.dropExport(m.ID)
	for _, old := range slices.Clone(l.exports.order) {
		if old.channel == m.Channel {
			l.dropExport(old.id)
		}
	}
	b := l.n.book(l.peer, m.Channel)
	b.Settle(ledger.Reader{Run: l.run, ID: m.Held.ID, Held: ledger.FromWire(m.Held)})
	x := &export{id: m.ID, channel: c.ch.Name(), epoch: c.ch.Epoch(), qos: p.granted, asked: p.asked, book: b}
	l.exports.add(x)
	if l.overHub() {
		x.plane = l.n.publishers.Subscribe(c.ch, hubway.Request{ID: m.ID, Peer: hubPeer{l}, QoS: p.granted, Have: m.HaveSeq, Book: b, Copies: c.copies})
		l.mu.Unlock()
		return
	}
	sub := newSubscription(x, c, m.HaveSeq, l.n.ringClock)
	sub.compression = ring.NewCompression(p.granted.Compress, l.compressor, l.n.now)
	sub.suspended = l.n.clock.Suspended
	sub.asleep = sub.suspended()
	l.rouse(sub)
	if sub.every != nil {
		l.openStream(sub)
	}
	l.mu.Unlock()
	sub.arrivals.Watch(l.n.cfg.Source, func() {
		if l.news.add(sub) {
			l.awake()
		}
	})
	l.awake()
}
