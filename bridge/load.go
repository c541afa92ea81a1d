package bridge

import (
	"errors"
	"io"
	"time"

	"achbridge/bridge/fresh"
	"achbridge/localach"
	"achbridge/wire"
)

// load makes sure that what is to be sent next is in buf: the newest frame of
// the ring, unless a frame of several parts is under way. That one is finished
// first, so that ever newer frames do not starve it.
func (e *export) load(now time.Duration, room int) bool {
	if e.out.Active() {
		return e.out.Pending()
	}
	newest, seen, slot := e.note.read()
	if newest > e.loaded && now >= e.retry && now >= slot {
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
	passed := e.note.next(now, e.qos.MaxRate.Interval())
	e.pass(seq, passed)
	if newest, _, _ := e.note.read(); seq > newest {
		seen = now // put after the watcher looked
	}
	e.buf, e.spare = e.spare, e.buf
	e.before, e.captured = e.captured, seen
	e.loaded, e.size, e.left = seq, n, false
	e.owed = e.over(seen, now)
	e.whole = n+wire.MaxFrameOverhead <= room
	e.todo = e.whole
	if e.whole {
		return
	}
	count := wire.PartCount(n, room-wire.MaxPartOverhead)
	if count == 0 {
		e.book.refused++ // larger than the wire allows; offered() keeps such channels out
		return
	}
	e.out.Begin(seq, n, count)
}

func isBusy(err error) bool { return errors.Is(err, localach.ErrBusy) }

// pass settles what the new frame seq means for those before it: those up to
// passed were there before the slot of max_rate.
func (e *export) pass(seq, passed uint64) {
	skipped := seq - e.loaded - 1
	limited := min(max(passed, e.loaded)-e.loaded, skipped)
	e.book.limited += limited
	e.book.superseded += skipped - limited
	switch {
	case e.todo && e.left:
		e.book.lost++
	case e.todo:
		e.book.superseded++
	}
	e.todo, e.lost = false, false
}

// frame is an entry with data of the loaded frame.
func (e *export) frame(data []byte) wire.Frame {
	return wire.Frame{Sub: e.id, Epoch: uint32(e.epoch), Seq: e.loaded, Captured: e.captured, Owed: e.owed, Data: data}
}

// nextLook is when something changes here by itself, in the far future if nothing
// does.
func (e *export) nextLook(now time.Duration) time.Duration {
	newest, _, slot := e.note.read()
	next := now + time.Hour
	if newest > e.loaded {
		for _, at := range [...]time.Duration{e.retry, slot, e.captured + e.qos.budget()} {
			if at > now {
				next = min(next, at)
			}
		}
	}
	return next
}

// sending records that a packet of the loaded frame leaves.
func (e *export) sending() {
	if !e.left {
		e.left = true
		e.book.sent++
	}
}

// delivered records that a piece has arrived.
func (e *export) delivered(p fresh.Piece) {
	if !p.Whole && !e.out.Arrived(p.Seq, p.Index) {
		return
	}
	e.arrived = max(e.arrived, p.Seq)
	if !e.book.acks.Add(p.Seq) {
		return
	}
	e.book.arrived++
	if p.Seq != e.loaded {
		return
	}
	if e.lost {
		e.book.repaired++
	}
	e.todo, e.lost = false, false
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
		e.book.lost++
	}
}

// owe sends the newest frame once more, past its budget or not: the mirror has
// only frame have. If there is something newer, that is on its way by itself.
func (e *export) owe(have uint64) {
	newest, _, _ := e.note.read()
	if have >= e.loaded || newest > e.loaded || e.busy() || !e.left || e.qos.Class == Command || e.tape != nil {
		return
	}
	e.owed, e.arrived = true, min(e.arrived, have)
	if e.whole {
		e.todo = true
		return
	}
	e.out.Begin(e.loaded, e.size, e.out.Count)
}
