package bridge

import (
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// export is what one peer gets of one channel of ours, over the link or through the hub. The link's mu guards it, except for
// arrivals.
type export struct {
	id       uint32
	channel  string
	epoch    uint64
	qos      rule.QoS
	asked    rule.QoS // what the peer asked for; rules may grant less
	book     *ledger.Book
	arrivals *ring.Arrivals
	size     int    // bytes of the frame that was loaded last, as it is sent
	arrived  uint64 // highest number known to have arrived
	trouble  error  // why the last try to read or to send the channel failed
	teller   ledger.Teller
	reader   readerSight

	plane plane
	sub   *subscription // plane, if that is the link; else nil
}

// plane sends the frames of an export: a subscription over the link, a hubReader through the hub. All methods require the
// link's mu.
type plane interface {
	// requalify serves the export by the quality of service that it has now, in place of former.
	requalify(former rule.QoS, now time.Duration)
	// owe sends the newest frame once more to a mirror that has only frame have.
	owe(have uint64)
	// hear takes the peer's account of what it received.
	hear(a wire.Account)
	// accounts returns the frame counters, and the newest frame that they include. inFlight: packets of the export are on
	// their way.
	accounts(inFlight bool) (a ledger.Accounts, newest uint64)
	// show adds what only this plane knows.
	show(s *status.Subscription)
	// stop ends the sending and closes the export's book.
	stop()
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
	x.plane.stop()
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
	for _, old := range append([]*export(nil), l.exports.order...) {
		if old.channel == m.Channel {
			l.dropExport(old.id)
		}
	}
	b := l.n.book(l.peer, m.Channel)
	b.Settle(ledger.Reader{Run: l.run, ID: m.Held.ID, Held: ledger.FromWire(m.Held)})
	x := &export{
		id: m.ID, channel: c.ch.Name(), epoch: c.ch.Epoch(), qos: p.granted, asked: p.asked, book: b,
		size: c.ch.Geometry().FrameSize, arrived: m.HaveSeq,
	}
	l.exports.add(x)
	if l.overHub() {
		l.addHubExport(x, c)
		l.mu.Unlock()
		return
	}
	sub := newSubscription(x, c, l.n.ringClock)
	sub.compression = ring.NewCompression(p.granted.Compress, l.compressor, l.n.now)
	sub.suspended = l.n.clock.Suspended
	sub.asleep = sub.suspended()
	l.rouse(sub)
	if sub.every != nil {
		l.openStream(sub)
	}
	l.mu.Unlock()
	sub.arrivals.Watch(l.n.cfg.Source, func(more int) {
		if l.news.add(sub) && !l.sendAtOnce(sub, more) {
			l.awake()
		}
	})
	l.awake()
}
