package bridge

import (
	"slices"
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
	"achbridge/wire"
)

// export is a peer's subscription to one channel of ours, over the link or through the hub. It belongs to the node's goroutine.
type export struct {
	id      uint32
	channel string
	qos     rule.QoS
	asked   rule.QoS // what the peer asked for; rules may grant less
	book    *ledger.Book
	teller  ledger.Teller
	reader  readerSight

	plane // sends the frames
}

// plane sends the frames of an export: a send.Subscription over the link, a hubway.Subscription through the hub.
type plane interface {
	// Requalify serves the export by another quality of service.
	Requalify(qos rule.QoS)
	// Resend sends the newest frame once more to a mirror that has only frame have.
	Resend(have uint64)
	// Hear takes the peer's account of what it received.
	Hear(a wire.Account)
	// Accounts returns the frame counters, and the newest frame that they include.
	Accounts() (a ledger.Accounts, newest uint64)
	// Show adds the state of the sending to a status.
	Show(s *status.Subscription)
	// Trouble returns why the last try to read or to send the channel failed; nil if none did.
	Trouble() error
	// Stop ends the sending and closes the export's book.
	Stop()
}

// exports are the exports of one link. They belong to the node's goroutine.
type exports struct {
	byID  map[uint32]*export
	order []*export // in the order in which they began
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

// hasCommands reports whether an export has class command; "" means any channel.
func (e *exports) hasCommands(channel string) bool {
	return slices.ContainsFunc(e.order, func(x *export) bool {
		return (channel == "" || x.channel == channel) && x.qos.Class == rule.Command
	})
}

// dropExports ends the peer's subscriptions to a channel; the next catalog says why.
func (l *link) dropExports(channel string) {
	for id, x := range l.exports.byID {
		if x.channel == channel {
			l.catalog.sent.ended[channel] = append(l.catalog.sent.ended[channel], id)
			l.exports.drop(id)
		}
	}
}

// addExport starts an export to the peer, in place of one with the same id or of the same channel: a peer has no more of them
// than we offer channels.
func (l *link) addExport(m wire.Subscribe, p permitted, c *locals.Channel) {
	l.exports.drop(m.ID)
	for _, old := range slices.Clone(l.exports.order) {
		if old.channel == m.Channel {
			l.exports.drop(old.id)
		}
	}
	b := l.n.shared.book(l.peer, m.Channel)
	b.Settle(ledger.Reader{Run: l.hello.run, ID: m.Held.ID, Held: ledger.FromWire(m.Held)})
	x := &export{id: m.ID, channel: c.Ring.Name(), qos: p.granted, asked: p.asked, book: b}
	if l.overHub() {
		x.plane = l.n.shared.publishers.Subscribe(c.Ring, hubway.Request{ID: m.ID, Peer: hubPeer{l}, QoS: p.granted, Have: m.HaveSeq, Book: b, Copies: c.Copies})
	} else {
		x.plane = l.frames.Subscribe(send.Request{ID: m.ID, Channel: c.Ring, Copies: c.Copies, QoS: p.granted, Have: m.HaveSeq, Book: b})
	}
	l.exports.byID[x.id] = x
	l.exports.order = append(l.exports.order, x)
}

// sharedExports is what the exports of all links share. It belongs to the node's goroutine.
type sharedExports struct {
	copying    ring.Resources     // for copies of local channels' frames
	publishers *hubway.Publishers // publish channels at the hub
	books      map[bookKey]*ledger.Book
}

func newSharedExports(work *sync.WaitGroup, now func() time.Duration) sharedExports {
	return sharedExports{
		copying: ring.Resources{
			Compressor: ring.NewCompressor(), Budget: ring.NewBudget(ring.DefaultBudget), Large: ring.NewSemaphore(),
			Spawn: ring.NewWorkers(work).Start, Now: now,
		},
		books: make(map[bookKey]*ledger.Book),
	}
}

// bookKey names an account: a peer, and a channel that it reads.
type bookKey struct {
	peer    trust.NodeID
	channel string
}

// maxBooks bounds the accounts that are kept of what peers have read.
const maxBooks = 10000

// book returns the account of a channel towards a peer.
func (s *sharedExports) book(peer trust.NodeID, channel string) *ledger.Book {
	key := bookKey{peer, channel}
	b := s.books[key]
	if b == nil {
		b = &ledger.Book{}
		if len(s.books) < maxBooks {
			s.books[key] = b
		}
	}
	return b
}
