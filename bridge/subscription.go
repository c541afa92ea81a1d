package bridge

import (
	"time"

	"achbridge/bridge/fresh"
	"achbridge/bridge/ledger"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// subscription sends one channel of ours to one peer over the link. The ring is its queue: it knows that there is something
// newer, and copies the newest frame when the link can take it. The link's mu guards it, except for arrivals.
type subscription struct {
	*export
	ch     *localach.Channel
	r      *localach.Reader
	clock  ring.Clock
	copies *ring.Snapshots // of the channel's large frames
	user   *ring.User      // of them

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
	griped       bool          // of that, the log
	retry        time.Duration // not before
	busyFor      time.Duration // from try to try, while the channel's lock is taken
	every        *everySender  // mode every; nil in mode newest
	active       bool          // the pump looks at it
	ended        bool

	known ring.Arrival // as the send loop last collected it
}

// newSubscription prepares the sending of x, whose peer has frame x.arrived already.
func newSubscription(x *export, c *local, clock ring.Clock) *subscription {
	have := x.arrived
	x.arrivals = ring.NewArrivals(c.ch, clock)
	known := x.arrivals.Newest()
	last := known.Seq
	sub := &subscription{export: x, ch: c.ch, r: c.ch.Reader(), clock: clock, copies: c.copies, loaded: have, raw: x.size, known: known}
	x.plane, x.sub = sub, sub
	x.arrivals.SetCommand(x.qos.Class == rule.Command)
	sub.user = c.copies.Join(x.arrivals.Nudge)
	if x.qos.Mode == rule.Every {
		sub.every = newEverySender(x.id, c, have)
		x.arrivals.LogAll()
		x.book.BeginAll(x.epoch, have, last)
		return sub
	}
	if have < last {
		sub.loaded = last - 1 // the newest frame is owed to a late joiner
	}
	x.book.Begin(x.epoch, have, last)
	return sub
}

func (sub *subscription) stop() {
	sub.book.Close(sub.newest())
	sub.ended = true
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

func (sub *subscription) requalify(former rule.QoS, now time.Duration) {
	command := sub.qos.Class == rule.Command
	if former.Class == rule.Command && !command {
		sub.forgive()
	}
	sub.compression.Want = sub.qos.Compress
	sub.arrivals.SetCommand(command)
	sub.known = sub.arrivals.SetInterval(now, sub.qos.MaxRate.Interval())
}

func (sub *subscription) hear(a wire.Account) { sub.book.Hear(ledger.FromWire(a)) }

func (sub *subscription) accounts(inFlight bool) (a ledger.Accounts, newest uint64) {
	newest = sub.newest()
	if !inFlight && !sub.busy() && !sub.older.out.Active() && sub.every == nil {
		return sub.book.Settled(newest), newest
	}
	return sub.book.Accounts(newest), newest
}

func (sub *subscription) show(*status.Subscription) {}

// newest returns the number of the newest frame that is known: one may be copied out of the ring before the watcher has seen
// it.
func (sub *subscription) newest() uint64 { return max(sub.arrivals.Newest().Seq, sub.copied) }
