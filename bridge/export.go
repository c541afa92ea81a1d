package bridge

import (
	"errors"
	"io"
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

	buf      []byte        // the frame loaded last
	spare    []byte        // what the next one is read into
	size     int           // of that frame, bytes
	captured time.Duration // of that frame, 0 unknown
	loaded   uint64        // its number: the highest that was copied
	before   time.Duration // capture time of the frame loaded before it
	whole    bool          // it travels in one datagram
	todo     bool          // it is whole and has to be sent, or sent again
	lost     bool          // a packet of it was lost
	out      fresh.Outgoing
	arrived  uint64        // highest number known to have arrived
	trouble  error         // why the last try to read the channel failed
	retry    time.Duration // not before
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
		newest: last, loaded: haveSeq, arrived: haveSeq, first: last, size: ch.Geometry().FrameSize,
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

// pending reports whether there is something to send, and how urgent it is
// among equals: the age by which it makes the mirror younger, squared, per byte.
// Sending in that order gives every channel a share of the link that goes with
// the square root of its frames' size, which makes the sum of all ages least.
func (e *export) pending(now time.Duration) (urgency float64, ok bool) {
	newest, _ := e.note()
	if !e.out.Pending() && !e.todo && (e.out.Active() || newest <= e.loaded || now < e.retry) {
		return 0, false
	}
	had := e.captured // of the frame that was sent last: what the mirror has, or will
	if e.todo || e.out.Active() {
		had = e.before
	}
	gain := (now - had).Seconds()
	return gain * gain / float64(e.size+entryOverhead), true
}

// small reports that what comes next is likely to take little of a datagram.
func (e *export) small() bool { return e.size < smallFrame && !e.out.Active() }

const smallFrame = 300 // bytes

// entryOverhead is about what a frame costs beside its bytes.
const entryOverhead = 25

// load makes sure that what is to be sent next is in buf: the newest frame of
// the ring, unless a frame of several parts is under way. That one is finished
// first, so that ever newer frames do not starve it.
func (e *export) load(now time.Duration, room int) bool {
	if e.out.Active() {
		return e.out.Pending()
	}
	newest, seen := e.note()
	if newest > e.loaded && now >= e.retry {
		e.copy(seen, now, room)
	}
	return e.todo || e.out.Pending()
}

// How soon a channel is tried again: one whose lock was taken, and one that
// could not be read (it goes on by itself, or the node finds what is wrong).
const (
	tryBusy  = 200 * time.Microsecond
	tryAgain = 100 * time.Millisecond
)

// copy takes the newest frame out of the ring. It reads into a buffer of its
// own, so that a frame that may have to be sent again stays whole when this
// fails.
func (e *export) copy(seen, now time.Duration, room int) {
	n, err := e.r.TryNext(e.spare)
	if errors.Is(err, io.ErrShortBuffer) {
		e.spare = make([]byte, n)
		n, err = e.r.TryNext(e.spare)
	}
	if e.trouble = err; err != nil {
		e.retry = now + tryAgain
		if isBusy(err) {
			e.retry = now + tryBusy
		}
		return
	}
	seq := e.r.Seq()
	if seq <= e.loaded {
		e.retry = now + tryAgain // it runs backwards: the node will find out
		return
	}
	e.account(seq)
	if newest, _ := e.note(); seq > newest {
		seen = now // put after the watcher looked
	}
	e.buf, e.spare = e.spare, e.buf
	e.before, e.captured = e.captured, seen
	e.loaded, e.size = seq, n
	e.whole = n+wire.MaxFrameOverhead <= room
	e.todo = e.whole
	if e.whole {
		return
	}
	count := wire.PartCount(n, room-wire.MaxPartOverhead)
	if count == 0 {
		e.count.Refused++ // larger than the wire allows; offered() keeps such channels out
		return
	}
	e.out.Begin(seq, n, count)
}

func isBusy(err error) bool { return errors.Is(err, localach.ErrBusy) }

// account settles what the new frame seq means for those before it.
func (e *export) account(seq uint64) {
	e.count.Superseded += seq - e.loaded - 1
	switch {
	case e.todo && e.lost:
		e.count.Lost++
	case e.todo:
		e.count.Superseded++
	}
	e.todo, e.lost = false, false
}

// delivered records that a piece has arrived.
func (e *export) delivered(p fresh.Piece) {
	if p.Whole {
		e.arrived = max(e.arrived, p.Seq)
		e.count.Delivered++
		if p.Seq == e.loaded {
			if e.lost {
				e.count.Repaired++
			}
			e.todo, e.lost = false, false
		}
		return
	}
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

// missing records that a piece is lost. It is sent again, unless something
// newer has taken its place.
func (e *export) missing(p fresh.Piece) {
	switch {
	case !p.Whole:
		e.lost = e.out.Lost(p.Seq, p.Index) || e.lost
	case e.whole && p.Seq == e.loaded && e.arrived < p.Seq:
		e.todo, e.lost = true, true
	default:
		e.count.Lost++
	}
}

// accounts returns the counts with what follows from them.
func (e *export) accounts() Accounts {
	newest, _ := e.note()
	c := e.count
	c.Offered = newest - min(e.first, newest)
	c.InFlight = c.Offered - min(c.Offered, c.Delivered+c.Superseded+c.Lost+c.Refused)
	return c
}
