package bridge

import (
	"time"

	"achbridge/bridge/fresh"
	"achbridge/bridge/ledger"
	"achbridge/bridge/lock"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
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
	unwatch func()
	now     func() time.Duration
	looked  func() time.Duration // Source.Looked, by the same clock
	book    *ledger.Book
	copies  *snapshots     // of the channel's large frames
	member  *membership    // of them
	tell    func(more int) // has what is new sent; more is that of Source.NewData

	suspended func() time.Duration // for how long the host has been in all; nil: never
	asleep    time.Duration        // the same when it was looked at
	undated   uint64               // of a command channel: frames up to this one may be of any age

	data   []byte     // the frame loaded last, as it is sent: in buf, in packer's memory, or in shared
	shared *snapshot  // holds that frame; nil when it is ours alone
	codec  wire.Codec // of data
	borrowing
	packing  wire.Codec // that shared is being packed with; data is not there yet
	packer   packer
	buf      []byte        // that frame, when it was small
	spare    []byte        // what the next one is read into
	raw      int           // of that frame, bytes, as it is in the ring
	size     int           // of data
	captured time.Duration // of that frame, 0 unknown
	loaded   uint64        // its number: the highest that was copied
	copied   uint64        // the highest of this subscription; 0: none yet
	before   time.Duration // capture time of the frame loaded before it
	whole    bool          // it travels in one datagram
	waited   bool          // what is newer had to wait: for the link, the channel's lock, or the frame before
	todo     bool          // it is whole and has to be sent, or sent again
	left     bool          // a packet of it has left
	lost     bool          // a packet of it was lost
	owed     bool          // it is sent as the debt to the newest frame, whatever its age
	again    bool          // it has arrived, and is sent once more
	out      fresh.Outgoing
	early    bool          // to begin the next one: packets would wait for each other on the path
	older    olderFrame    // the large frame before it, all of which has left
	arrived  uint64        // highest number known to have arrived
	trouble  error         // why the last try to read the channel failed, or its frame is not sent
	griped   bool          // of that, the log
	retry    time.Duration // not before
	busyFor  time.Duration // from try to try, while the channel's lock is taken
	every    *everySender  // mode every; nil in mode newest
	teller   ledger.Teller
	reader   readerSight
	active   bool // the pump looks at it
	ended    bool

	arrivals *arrivals
	hub      *hubReader // it is served through the hub; nil: over the link
	known    arrival    // what the pump last heard of arrivals
}

// arrivals is which frames the watcher has seen come into a channel. The slots of
// max_rate are here, since a frame that comes before its slot is passed over.
type arrivals struct {
	mu lock.Mutex[lock.Arrivals]
	arrival
	strict bool   // a command: what was seen late may have been put long ago
	told   bool   // the pump was told since it last heard
	passed uint64 // newest frame that was there before the slot
	pace   ledger.Pace
	log    []seenAt // mode every: when each of the latest frames was seen first; nil in mode newest
	logged int      // sights ever made
}

// arrival is what the pump reads of arrivals: the newest frame.
type arrival struct {
	newest uint64        // last_seq as the watcher saw it
	seen   time.Duration // its capture time: when it saw it, 0: before we watched
	slot   time.Duration // when the next frame may leave
	next   time.Duration // load: the capture time of a frame that is newer than newest
}

// seenAt is when the watcher saw that frame seq was the newest of its channel.
type seenAt struct {
	seq uint64
	at  time.Duration
}

const maxArrivals = 4096

// newSubscription prepares a subscription for a peer that has frame have already.
func newSubscription(m wire.Subscribe, qos rule.QoS, c *local, b *ledger.Book, now func() time.Duration) *subscription {
	ch, last := c.ch, c.ch.LastSeq()
	sub := &subscription{
		id: m.ID, channel: ch.Name(), epoch: ch.Epoch(), qos: qos, ch: ch, r: ch.Reader(), now: now, looked: now, book: b, copies: c.copies,
		loaded: m.HaveSeq, arrived: m.HaveSeq, raw: ch.Geometry().FrameSize, size: ch.Geometry().FrameSize, arrivals: &arrivals{arrival: arrival{newest: last}}, known: arrival{newest: last},
	}
	sub.arrivals.strict = qos.Class == rule.Command
	sub.member = c.copies.join(sub.nudge)
	if qos.Mode == rule.Every {
		sub.every = newEverySender(m.ID, c, m.HaveSeq)
		sub.arrivals.log = make([]seenAt, min(ch.Geometry().FrameCount, maxArrivals))
		b.BeginAll(sub.epoch, m.HaveSeq, last)
		return sub
	}
	if m.HaveSeq < last {
		sub.loaded = last - 1 // the newest frame is owed to a late joiner
	}
	b.Begin(sub.epoch, m.HaveSeq, last)
	return sub
}

// watch begins to watch the channel. It calls tell after the first frame that came
// since the pump last heard of one.
func (sub *subscription) watch(src Source, tell func(more int)) {
	sub.arrivals.mu.Lock()
	sub.tell = tell
	sub.arrivals.mu.Unlock()
	take := func(seq uint64, more int, watched bool) {
		now := sub.now()
		if sub.arrivals.take(seq, now, unseenSince(now, sub.looked), watched) {
			tell(more)
		}
	}
	stop := src.NewData(sub.ch, func(seq uint64, more int) { take(seq, more, true) })
	sub.arrivals.mu.Lock()
	sub.unwatch = stop
	sub.arrivals.mu.Unlock()
	take(sub.ch.LastSeq(), forPump, false) // put after newExport looked and before the watching began
}

// nudge has the pump look at sub, as after a new frame.
func (sub *subscription) nudge() {
	sub.arrivals.mu.Lock()
	tell := sub.tell
	if sub.arrivals.told {
		tell = nil // it is about to
	}
	sub.arrivals.told = sub.arrivals.told || tell != nil
	sub.arrivals.mu.Unlock()
	if tell != nil {
		tell(forPump)
	}
}

// forPump stands for calls that follow, so that the pump sends what is new.
const forPump = 1

// unseenSince is the earliest time at which a frame that nobody has seen yet may have been
// put. That is now, unless the daemon stood still: then the frame may have come at any
// time since it last looked.
func unseenSince(now time.Duration, looked func() time.Duration) time.Duration {
	if at := looked(); now-at > standstill {
		return max(at, 1)
	}
	return now
}

// standstill is how long nobody looked at a channel when the daemon was stopped,
// or got no processor: ten times the watcher's longest period.
const standstill = 20 * time.Millisecond

// take records frame seq, which was put between since and now. It reports whether the
// pump has to be told. Only the watcher's word may be of an earlier frame: that of a channel
// which was made anew.
func (a *arrivals) take(seq uint64, now, since time.Duration, watched bool) (tell bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if seq == a.newest || seq < a.newest && !watched {
		return false
	}
	a.newest, a.seen = seq, now
	if a.strict {
		a.seen = since
	}
	a.pace.Add(seq, a.seen)
	if a.log != nil {
		a.log[a.logged%len(a.log)] = seenAt{seq, now}
		a.logged++
	}
	if now < a.slot {
		a.passed = seq
	}
	tell, a.told = !a.told, true
	return tell
}

// when is the capture time of frame seq in mode every, 0 when it was put before we
// watched or too long ago.
func (a *arrivals) when(seq uint64) (at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for back := 1; back <= min(a.logged, len(a.log)); back++ {
		s := a.log[(a.logged-back)%len(a.log)]
		if s.seq < seq {
			return at
		}
		at = s.at
	}
	if a.logged > len(a.log) || a.logged == 0 {
		return 0
	}
	return at
}

func (a *arrivals) read() arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.arrival
}

// hear is read for the pump, which is told of the next frame after it.
func (a *arrivals) hear() arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = false
	return a.arrival
}

// next begins the wait for the next slot, interval after the one that is used
// now, and returns it and the newest frame that was passed over before this one.
func (a *arrivals) next(now, interval time.Duration) (slot time.Duration, passed uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case interval == 0:
		a.slot = 0
	case now-a.slot < interval:
		a.slot += interval
	default:
		a.slot = now + interval
	}
	return a.slot, a.passed
}

// requalify takes another quality of service: the next frame leaves no later than
// at the interval that is in force from now on.
func (a *arrivals) requalify(now time.Duration, qos rule.QoS) arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.slot = min(a.slot, now+qos.MaxRate.Interval())
	a.strict = qos.Class == rule.Command
	return a.arrival
}

// due is the age of the newest frame that was seen, the time between two frames that
// the peer is to get, and for how long the next has been due; nil: not known.
// interval is the time that the origin leaves between two at least.
func (a *arrivals) due(now, interval time.Duration) (age, period, due *float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen != 0 {
		v := status.Ms(max(0, now-a.seen))
		age = &v
	}
	every, known := a.pace.Period(interval)
	period, due = status.Due(age, every, known)
	return age, period, due
}

// passedOver is the newest frame that was there before the slot.
func (a *arrivals) passedOver() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.passed
}

func (sub *subscription) stop() {
	if sub.hub != nil {
		sub.hub.leave()
		return
	}
	sub.arrivals.mu.Lock()
	defer sub.arrivals.mu.Unlock()
	if sub.unwatch != nil {
		sub.unwatch()
	}
	if sub.every != nil {
		sub.every.stop()
	}
	if sub.shared != nil {
		sub.shared.release()
	}
	if sub.older.shared != nil {
		sub.older.shared.release()
	}
	sub.copies.leave(sub.member)
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
		return max(sub.arrivals.read().newest, sub.hub.put())
	}
	return max(sub.arrivals.read().newest, sub.copied)
}
