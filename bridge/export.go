package bridge

import (
	"sync"
	"time"

	"achbridge/bridge/fresh"
	"achbridge/localach"
	"achbridge/wire"
)

// export is one subscription of a peer to a channel of ours. The ring is its
// queue: it knows that there is something newer, and copies the newest frame
// when the link can take it. Guarded by the link's mu, except newest.
type export struct {
	id      uint32
	channel string
	epoch   uint64
	ch      *localach.Channel
	r       *localach.Reader
	unwatch func()
	now     func() time.Duration

	out      fresh.Outgoing
	buf      []byte        // the frame on its way
	captured time.Duration // of that frame, 0 unknown
	lost     bool          // a packet of it was lost
	loaded   uint64        // highest sequence number copied
	arrived  uint64        // highest one known to have arrived
	broken   error         // why the channel cannot be read any more
	count    Accounts
	first    uint64 // last_seq before the first frame that was offered

	noteMu sync.Mutex
	newest uint64        // last_seq as the watcher saw it
	seen   time.Duration // when it saw it, 0: before we watched
}

// newExport prepares a subscription for a peer that has frame haveSeq already.
func newExport(id uint32, ch *localach.Channel, haveSeq uint64, now func() time.Duration) *export {
	last := ch.LastSeq()
	e := &export{
		id: id, channel: ch.Name(), epoch: ch.Epoch(), ch: ch, r: ch.Reader(), now: now,
		newest: last, loaded: haveSeq, arrived: haveSeq, first: last,
	}
	if last > 0 && haveSeq < last {
		e.first = last - 1 // the newest frame is owed to a late joiner
		e.loaded = last - 1
	}
	return e
}

// watch starts to note new data; wake is called after each note.
func (e *export) watch(src Source, wake func()) {
	stop := src.NewData(e.ch, func(seq uint64) {
		e.noteMu.Lock()
		e.take(seq)
		e.noteMu.Unlock()
		wake()
	})
	e.noteMu.Lock()
	defer e.noteMu.Unlock()
	e.unwatch = stop
	e.take(e.ch.LastSeq()) // put after newExport looked and before the watching began
}

// take needs e.noteMu.
func (e *export) take(seq uint64) {
	if seq != e.newest {
		e.newest, e.seen = seq, e.now()
	}
}

func (e *export) stop() {
	e.noteMu.Lock()
	defer e.noteMu.Unlock()
	if e.unwatch != nil {
		e.unwatch()
	}
}

func (e *export) note() (newest uint64, seen time.Duration) {
	e.noteMu.Lock()
	defer e.noteMu.Unlock()
	return e.newest, e.seen
}

// ready makes sure that the frame to be sent next, if there is one, is in buf.
// A frame in several parts that is under way is finished first: no starvation
// by ever newer frames. A whole frame that waits is replaced by a newer one.
// room is what a datagram holds.
func (e *export) ready(room int) bool {
	if e.broken != nil {
		return false
	}
	if e.out.Active() && (e.out.Count > 1 || !e.out.Pending()) {
		return e.out.Pending()
	}
	newest, seen := e.note()
	if newest <= e.loaded {
		return e.out.Pending()
	}
	return e.load(seen, room) || e.out.Pending()
}

// load copies the newest frame out of the ring.
func (e *export) load(seen time.Duration, room int) bool {
	n, err := e.r.Next(e.buf, 0)
	for range 2 {
		if !isShort(err) {
			break
		}
		e.buf = make([]byte, n)
		n, err = e.r.Next(e.buf, 0)
	}
	if err != nil {
		if !isNothingNew(err) && !isBusy(err) {
			e.broken = err
		}
		return false
	}
	seq := e.r.Seq()
	if seq <= e.loaded {
		return false // the peer has it
	}
	e.account(seq)
	e.captured = seen
	if newest, _ := e.note(); seq > newest {
		e.captured = e.now() // put after the watcher looked
	}
	e.loaded = seq
	count := 1
	if n+wire.MaxFrameOverhead > room {
		count = wire.PartCount(n, room-wire.MaxPartOverhead)
	}
	if count == 0 {
		e.count.Refused++ // larger than the wire allows; offered() keeps such channels out
		return false
	}
	e.out.Begin(seq, n, count)
	return true
}

// account settles what the new frame seq means for those before it.
func (e *export) account(seq uint64) {
	e.count.Superseded += seq - e.loaded - 1
	if e.out.Active() {
		if e.lost {
			e.count.Lost++
		} else {
			e.count.Superseded++
		}
	}
	e.lost = false
}

// delivered records that a piece has arrived.
func (e *export) delivered(p fresh.Piece) {
	if !e.out.Arrived(p.Seq, p.Index) {
		return
	}
	e.arrived = p.Seq
	e.count.Delivered++
	if e.lost {
		e.count.Repaired++
	}
	e.lost = false
}

// missing records that a piece is lost: it is sent again unless something
// newer takes its place.
func (e *export) missing(p fresh.Piece) {
	if e.out.Lost(p.Seq, p.Index) {
		e.lost = true
	}
}

// accounts returns the counts with what follows from them.
func (e *export) accounts() Accounts {
	newest, _ := e.note()
	c := e.count
	c.Offered = newest - min(e.first, newest)
	c.InFlight = c.Offered - min(c.Offered, c.Delivered+c.Superseded+c.Lost)
	return c
}
