package send

import (
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/delivery"
	"achbridge/bridge/ledger"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// Subscription sends one channel of this host to the peer. The ring is its queue: it knows that there is something newer, and
// copies the newest frame when the link can take it. The link's mu guards it, except for arrivals.
type Subscription struct {
	link     *Link
	id       uint32
	epoch    uint64
	qos      rule.QoS
	book     *ledger.Book
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
	early        bool          // to begin the next one: packets would wait for each other on the path
	older        olderFrame    // the large frame before it, all of which has left
	isReported   bool          // the node was told of trouble
	retry        time.Duration // not before
	busyFor      time.Duration // from try to try, while the channel's lock is taken
	every        *everySender  // mode every; nil in mode newest
	active       bool          // the pump looks at it
	ended        bool

	known ring.Arrival // as the send loop last collected it
}

// newSubscription prepares the sending of a channel.
func newSubscription(r Request, c ring.Clock) *Subscription {
	arrivals, size := ring.NewArrivals(r.Channel, c), r.Channel.Geometry().FrameSize
	known := arrivals.Newest()
	last := known.Seq
	sub := &Subscription{
		id: r.ID, epoch: r.Channel.Epoch(), qos: r.QoS, book: r.Book, arrivals: arrivals, size: size, arrived: r.Have, ch: r.Channel,
		r: r.Channel.Reader(), clock: c, copies: r.Copies, loaded: r.Have, raw: size, known: known,
	}
	arrivals.SetCommand(r.QoS.Class == rule.Command)
	sub.user = r.Copies.Join(arrivals.Nudge)
	if r.QoS.Mode == rule.Every {
		sub.every = newEverySender(r)
		arrivals.LogAll()
		r.Book.BeginAll(sub.epoch, r.Have, last)
		return sub
	}
	if r.Have < last {
		sub.loaded = last - 1 // the newest frame is owed to a late joiner
	}
	r.Book.Begin(sub.epoch, r.Have, last)
	return sub
}

// Stop ends the sending and closes the book.
func (sub *Subscription) Stop() {
	sub.link.mu.Lock()
	defer sub.link.mu.Unlock()
	delete(sub.link.subs, sub.id)
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

// Requalify sends the channel by another quality of service from now on.
func (sub *Subscription) Requalify(qos rule.QoS) {
	l := sub.link
	l.mu.Lock()
	former := sub.qos.Class
	sub.qos = qos
	if former == rule.Command && qos.Class != rule.Command {
		sub.forgive()
	}
	sub.compression.Want = qos.Compress
	sub.arrivals.SetCommand(qos.Class == rule.Command)
	sub.known = sub.arrivals.SetInterval(l.now(), qos.MaxRate.Interval())
	l.rouse(sub)
	l.mu.Unlock()
	l.Wake()
}

// Owe sends the newest frame once more to a mirror that has only frame have, past its budget or not. If there is something newer,
// that is on its way by itself.
func (sub *Subscription) Owe(have uint64) {
	l := sub.link
	l.mu.Lock()
	sub.owe(have)
	l.rouse(sub)
	l.mu.Unlock()
	l.Wake()
}

// Hear takes the peer's account of what it received.
func (sub *Subscription) Hear(a wire.Account) {
	sub.link.mu.Lock()
	defer sub.link.mu.Unlock()
	sub.book.Hear(ledger.FromWire(a))
}

// Accounts returns the frame counters, and the newest frame that they include.
func (sub *Subscription) Accounts() (a ledger.Accounts, newest uint64) {
	sub.link.mu.Lock()
	defer sub.link.mu.Unlock()
	newest = sub.newest()
	if !sub.busy() && !sub.older.out.Active() && sub.every == nil && !sub.link.flight.Carries(sub.id) {
		return sub.book.Settled(newest), newest
	}
	return sub.book.Accounts(newest), newest
}

// Show adds the state of the sending to a status.
func (sub *Subscription) Show(s *status.Subscription) {
	sub.link.mu.Lock()
	defer sub.link.mu.Unlock()
	s.Seq, s.Bytes, s.WithRoom = sub.arrived, sub.size, sub.book.WithRoom
	s.AgeMs, s.PeriodMs, s.DueMs = sub.arrivals.Due(sub.clock.Now(), sub.qos.MaxRate.Interval())
}

// Trouble returns why the last try to read or to send the channel failed; nil if none did.
func (sub *Subscription) Trouble() error {
	sub.link.mu.Lock()
	defer sub.link.mu.Unlock()
	return sub.trouble
}

// newest returns the number of the newest frame that is known: one may be copied out of the ring before the watcher has seen
// it.
func (sub *Subscription) newest() uint64 { return max(sub.arrivals.Newest().Seq, sub.copied) }

// wake records, for a command channel, that its present frames may be from before the host
// was suspended, since their capture times do not show that. Needs the link's mu.
func (sub *Subscription) wake() {
	if sub.qos.Class != rule.Command || sub.suspended == nil {
		return
	}
	total := sub.suspended()
	if !clock.Slept(sub.asleep, total) {
		return
	}
	sub.asleep, sub.undated, sub.captured = total, sub.ch.LastSeq(), 0
}
