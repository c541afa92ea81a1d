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

// export is one subscription of a peer to a channel of ours. The ring is its
// queue: it knows that there is something newer, and copies the newest frame
// when the link can take it. Guarded by the link's mu, except for the note.
type export struct {
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
	copies  *snapshots  // of the channel's large frames
	member  *membership // of them
	tell    func()      // wakes the pump

	suspended func() time.Duration // for how long the host has been in all; nil: never
	asleep    time.Duration        // the same when it was looked at
	undated   uint64               // of a command channel: frames up to this one may be of any age

	data     []byte     // the frame loaded last, as it is sent: in buf, in packer's memory, or in shared
	shared   *snapshot  // holds that frame; nil when it is ours alone
	codec    wire.Codec // of data
	copying  bool       // its next frame is being copied out of the ring
	wanted   noted      // the note when it was asked for
	awaited  uint64     // number of the copy
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
	todo     bool          // it is whole and has to be sent, or sent again
	left     bool          // a packet of it has left
	lost     bool          // a packet of it was lost
	owed     bool          // it is sent as the debt to the newest frame, whatever its age
	again    bool          // it has arrived, and is sent once more
	out      fresh.Outgoing
	arrived  uint64        // highest number known to have arrived
	trouble  error         // why the last try to read the channel failed, or its frame is not sent
	griped   bool          // of that, the log
	retry    time.Duration // not before
	busyFor  time.Duration // from try to try, while the channel's lock is taken
	tape     *tape         // mode every; nil in mode newest
	teller   ledger.Teller
	reader   readerSight
	active   bool // the pump looks at it
	ended    bool

	note
	noted noted // the note as the pump last heard it
}

// note is what the watcher tells of a channel. The slots of max_rate are here,
// since what comes before one is passed over because of it.
type note struct {
	mu lock.Mutex[lock.Note]
	noted
	strict bool   // a command: what was seen late may have been put long ago
	told   bool   // the pump was told since it last heard
	passed uint64 // newest frame that was there before the slot
	pace   ledger.Pace
	log    []sight // mode every: when each of the latest frames was seen first; nil in mode newest
	logged int     // sights ever made
}

// noted is what the pump reads of a note.
type noted struct {
	newest uint64        // last_seq as the watcher saw it
	seen   time.Duration // its capture time: when it saw it, 0: before we watched
	slot   time.Duration // when the next frame may leave
	next   time.Duration // load: the capture time of a frame that is newer than newest
}

// sight is when the watcher saw that a channel had come to frame seq.
type sight struct {
	seq uint64
	at  time.Duration
}

const maxSights = 4096

// newExport prepares a subscription for a peer that has frame have already.
func newExport(m wire.Subscribe, qos rule.QoS, c *local, b *ledger.Book, now func() time.Duration) *export {
	ch, last := c.ch, c.ch.LastSeq()
	e := &export{
		id: m.ID, channel: ch.Name(), epoch: ch.Epoch(), qos: qos, ch: ch, r: ch.Reader(), now: now, looked: now, book: b, copies: c.copies,
		loaded: m.HaveSeq, arrived: m.HaveSeq, raw: ch.Geometry().FrameSize, size: ch.Geometry().FrameSize, note: note{noted: noted{newest: last}}, noted: noted{newest: last},
	}
	e.note.strict = qos.Class == rule.Command
	e.member = c.copies.join(e.nudge)
	if qos.Mode == rule.Every {
		e.tape = newTape(m.ID, c, m.HaveSeq)
		e.note.log = make([]sight, min(ch.Geometry().FrameCount, maxSights))
		b.BeginAll(e.epoch, m.HaveSeq, last)
		return e
	}
	if m.HaveSeq < last {
		e.loaded = last - 1 // the newest frame is owed to a late joiner
	}
	b.Begin(e.epoch, m.HaveSeq, last)
	return e
}

// watch starts to note new data; tell is called after the first note since the
// last one was heard.
func (e *export) watch(src Source, tell func()) {
	e.note.mu.Lock()
	e.tell = tell
	e.note.mu.Unlock()
	take := func(seq uint64) {
		now := e.now()
		if e.note.take(seq, now, e.unseen(now)) {
			tell()
		}
	}
	stop := src.NewData(e.ch, take)
	e.note.mu.Lock()
	e.unwatch = stop
	e.note.mu.Unlock()
	take(e.ch.LastSeq()) // put after newExport looked and before the watching began
}

// nudge has the pump look at e, as after a note.
func (e *export) nudge() {
	e.note.mu.Lock()
	tell := e.tell
	if e.note.told {
		tell = nil // it is about to
	}
	e.note.told = e.note.told || tell != nil
	e.note.mu.Unlock()
	if tell != nil {
		tell()
	}
}

// unseen is the least capture time of a frame that nobody has noted by now. That
// is now, unless the daemon stood still: then the frame may have come at any time
// of that.
func (e *export) unseen(now time.Duration) time.Duration {
	if looked := e.looked(); now-looked > standstill {
		return max(looked, 1)
	}
	return now
}

// standstill is how long nobody looked at a channel when the daemon was stopped,
// or got no processor: ten times the watcher's longest period.
const standstill = 20 * time.Millisecond

// take notes frame seq, which came between since and now. It reports whether the
// pump has to be told.
func (n *note) take(seq uint64, now, since time.Duration) (tell bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if seq == n.newest {
		return false
	}
	n.newest, n.seen = seq, now
	if n.strict {
		n.seen = since
	}
	n.pace.Add(seq, n.seen)
	if n.log != nil {
		n.log[n.logged%len(n.log)] = sight{seq, now}
		n.logged++
	}
	if now < n.slot {
		n.passed = seq
	}
	tell, n.told = !n.told, true
	return tell
}

// when is the capture time of frame seq in mode every, 0 when it was put before we
// watched or too long ago.
func (n *note) when(seq uint64) (at time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for back := 1; back <= min(n.logged, len(n.log)); back++ {
		s := n.log[(n.logged-back)%len(n.log)]
		if s.seq < seq {
			return at
		}
		at = s.at
	}
	if n.logged > len(n.log) || n.logged == 0 {
		return 0
	}
	return at
}

func (n *note) read() noted {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.noted
}

// hear is read for the pump, which is told of the next one.
func (n *note) hear() noted {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = false
	return n.noted
}

// next begins the wait for the next slot, interval after the one that is used
// now, and returns it and the newest frame that was passed over before this one.
func (n *note) next(now, interval time.Duration) (slot time.Duration, passed uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case interval == 0:
		n.slot = 0
	case now-n.slot < interval:
		n.slot += interval
	default:
		n.slot = now + interval
	}
	return n.slot, n.passed
}

// requalify takes another quality of service: the next frame leaves no later than
// at the interval that is in force from now on.
func (n *note) requalify(now time.Duration, qos rule.QoS) noted {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slot = min(n.slot, now+qos.MaxRate.Interval())
	n.strict = qos.Class == rule.Command
	return n.noted
}

// due is how old the newest frame is that was noted, the time between two that the peer
// is to get, and for how long the next has been due; nil: not known.
func (n *note) due(now time.Duration, qos rule.QoS) (age, period, due *float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen != 0 {
		v := status.Ms(max(0, now-n.seen))
		age = &v
	}
	every, known := n.pace.Period(qos.MaxRate.Interval())
	period, due = status.Due(age, every, known)
	return age, period, due
}

// passedOver is the newest frame that was there before the slot.
func (n *note) passedOver() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.passed
}

func (e *export) stop() {
	e.note.mu.Lock()
	defer e.note.mu.Unlock()
	if e.unwatch != nil {
		e.unwatch()
	}
	if e.tape != nil {
		e.tape.stop()
	}
	if e.shared != nil {
		e.shared.release()
	}
	e.copies.leave(e.member)
}

// accounts returns the ledger; settled says that no packet is on its way any more.
func (e *export) accounts(settled bool) ledger.Accounts {
	if settled && !e.busy() && e.tape == nil {
		return e.book.Settled(e.newest())
	}
	return e.book.Accounts(e.newest())
}

// newest is the number of the newest frame that is known: one may be copied out of the
// ring before the watcher has seen it.
func (e *export) newest() uint64 { return max(e.note.read().newest, e.copied) }
