package bridge

import (
	"time"

	"achbridge/bridge/fresh"
	"achbridge/bridge/ledger"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/localach"
	"achbridge/wire"
)

// subscription is what one peer gets of one channel of ours. The ring is its queue:
// it knows that there is something newer, and copies the newest frame when the link
// can take it. Guarded by the link's mu, except for arrivals.
type subscription struct {
	id      uint32
	channel string
	epoch   uint64
	qos     rule.QoS
	asked   rule.QoS // what the peer asked for; rules may grant less
	ch      *localach.Channel
	r       *localach.Reader
	clock   ring.Clock
	book    *ledger.Book
	copies  *ring.Snapshots // of the channel's large frames
	user    *ring.User      // of them

	suspended func() time.Duration // for how long the host has been in all; nil: never
	asleep    time.Duration        // the same when it was looked at
	undated   uint64               // of a command channel: frames up to this one may be of any age

	data         []byte         // the frame loaded last, as it is sent: in buf, in compression's memory, or in shared
	shared       *ring.Snapshot // holds that frame; nil when it is ours alone
	codec        wire.Codec     // of data
	request      ring.SnapshotRequest
	codecPending wire.Codec // by which shared is being compressed; CodecNone: data is valid
	compression  ring.Compression
	buf          []byte        // that frame, when it was small
	spare        []byte        // what the next one is read into
	raw          int           // of that frame, bytes, as it is in the ring
	size         int           // of data
	captured     time.Duration // of that frame, 0 unknown
	loaded       uint64        // its number: the highest that was copied
	copied       uint64        // the highest of this subscription; 0: none yet
	before       time.Duration // capture time of the frame loaded before it
	whole        bool          // it travels in one datagram
	waited       bool          // what is newer had to wait: for the link, the channel's lock, or the frame before
	todo         bool          // it is whole and has to be sent, or sent again
	left         bool          // a packet of it has left
	lost         bool          // a packet of it was lost
	owed         bool          // it is sent as the debt to the newest frame, whatever its age
	again        bool          // it has arrived, and is sent once more
	out          fresh.Outgoing
	early        bool          // to begin the next one: packets would wait for each other on the path
	older        olderFrame    // the large frame before it, all of which has left
	arrived      uint64        // highest number known to have arrived
	trouble      error         // why the last try to read the channel failed, or its frame is not sent
	griped       bool          // of that, the log
	retry        time.Duration // not before
	busyFor      time.Duration // from try to try, while the channel's lock is taken
	every        *everySender  // mode every; nil in mode newest
	teller       ledger.Teller
	reader       readerSight
	active       bool // the pump looks at it
	ended        bool

	arrivals *ring.Arrivals
	hub      *hubReader   // it is served through the hub; nil: over the link
	known    ring.Arrival // as the send loop last collected it
}

// newSubscription prepares a subscription for a peer that has frame have already.
func newSubscription(m wire.Subscribe, qos rule.QoS, c *local, b *ledger.Book, clock ring.Clock) *subscription {
	ch, arrivals := c.ch, ring.NewArrivals(c.ch, clock)
	known := arrivals.Newest()
	last := known.Seq
	sub := &subscription{
		id: m.ID, channel: ch.Name(), epoch: ch.Epoch(), qos: qos, ch: ch, r: ch.Reader(), clock: clock, book: b, copies: c.copies,
		loaded: m.HaveSeq, arrived: m.HaveSeq, raw: ch.Geometry().FrameSize, size: ch.Geometry().FrameSize, arrivals: arrivals, known: known,
	}
	arrivals.SetCommand(qos.Class == rule.Command)
	sub.user = c.copies.Join(arrivals.Nudge)
	if qos.Mode == rule.Every {
		sub.every = newEverySender(m.ID, c, m.HaveSeq)
		arrivals.LogAll()
		b.BeginAll(sub.epoch, m.HaveSeq, last)
		return sub
	}
	if m.HaveSeq < last {
		sub.loaded = last - 1 // the newest frame is owed to a late joiner
	}
	b.Begin(sub.epoch, m.HaveSeq, last)
	return sub
}

func (sub *subscription) stop() {
	if sub.hub != nil {
		sub.hub.leave()
		return
	}
	sub.arrivals.Stop()
	if sub.every != nil {
		sub.every.stop()
	}
	if sub.shared != nil {
		sub.shared.Release()
	}
	if sub.older.shared != nil {
		sub.older.shared.Release()
	}
	sub.copies.Leave(sub.user)
}

// accounts returns the ledger, and the newest frame that it counts; settled says that no packet
// is on its way any more.
func (sub *subscription) accounts(settled bool) (a ledger.Accounts, newest uint64) {
	if sub.hub != nil {
		sub.hub.settle()
	}
	newest = sub.newest()
	if sub.hub == nil && settled && !sub.busy() && !sub.older.out.Active() && sub.every == nil {
		return sub.book.Settled(newest), newest
	}
	return sub.book.Accounts(newest), newest
}

// newest is the number of the newest frame that is known: one may be copied out of the
// ring before the watcher has seen it.
func (sub *subscription) newest() uint64 {
	if sub.hub != nil {
		return max(sub.arrivals.Newest().Seq, sub.hub.put())
	}
	return max(sub.arrivals.Newest().Seq, sub.copied)
}
