package bridge

import (
	"time"

	"achbridge/bridge/delivery"
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
	arrivals *ring.Arrivals
	size     int    // bytes of the frame that was loaded last, as it is sent
	arrived  uint64 // highest number known to have arrived
	trouble  error  // why the last try to read the channel failed, or its frame is not sent
	ch       *localach.Channel
	r        *localach.Reader
	clock    ring.Clock
	copies   *ring.Snapshots // of the channel's large frames
	user     *ring.User      // of them

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
	out          delivery.Outgoing
	progressAt   time.Duration // when the first part of a large frame left, or a part of one arrived last
	measured     uint64        // the newer frame of which newestSize is the size in bytes
	newestSize   int
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

// newSubscription prepares the sending of x, whose peer has frame have already.
func newSubscription(x *export, c *local, have uint64, clock ring.Clock) *subscription {
	arrivals, size := ring.NewArrivals(c.ch, clock), c.ch.Geometry().FrameSize
	known := arrivals.Newest()
	last := known.Seq
	sub := &subscription{
		export: x, arrivals: arrivals, size: size, arrived: have, ch: c.ch, r: c.ch.Reader(), clock: clock, copies: c.copies, loaded: have, raw: size, known: known,
	}
	x.plane, x.sub = sub, sub
	arrivals.SetCommand(x.qos.Class == rule.Command)
	sub.user = c.copies.Join(arrivals.Nudge)
	if x.qos.Mode == rule.Every {
		sub.every = newEverySender(x.id, c, have)
		arrivals.LogAll()
		x.book.BeginAll(x.epoch, have, last)
		return sub
	}
	if have < last {
		sub.loaded = last - 1 // the newest frame is owed to a late joiner
	}
	x.book.Begin(x.epoch, have, last)
	return sub
}

// Stop implements plane, as do the methods that follow.
func (sub *subscription) Stop() {
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

func (sub *subscription) Requalify(qos rule.QoS) {
	former := sub.qos.Class
	sub.qos = qos
	if former == rule.Command && qos.Class != rule.Command {
		sub.forgive()
	}
	sub.compression.Want = qos.Compress
	sub.arrivals.SetCommand(qos.Class == rule.Command)
	sub.known = sub.arrivals.SetInterval(sub.clock.Now(), qos.MaxRate.Interval())
}

func (sub *subscription) Hear(a wire.Account) { sub.book.Hear(ledger.FromWire(a)) }

func (sub *subscription) Accounts(inFlight bool) (a ledger.Accounts, newest uint64) {
	newest = sub.newest()
	if !inFlight && !sub.busy() && !sub.older.out.Active() && sub.every == nil {
		return sub.book.Settled(newest), newest
	}
	return sub.book.Accounts(newest), newest
}

func (sub *subscription) Show(s *status.Subscription) {
	s.Seq, s.Bytes = sub.arrived, sub.size
	s.AgeMs, s.PeriodMs, s.DueMs = sub.arrivals.Due(sub.clock.Now(), sub.qos.MaxRate.Interval())
}

func (sub *subscription) Trouble() error { return sub.trouble }

// newest returns the number of the newest frame that is known: one may be copied out of the ring before the watcher has seen
// it.
func (sub *subscription) newest() uint64 { return max(sub.arrivals.Newest().Seq, sub.copied) }
