package bridge

import (
	"errors"
	"io"
	"os"
	"time"

	"achbridge/bridge/fresh"
	"achbridge/localach"
	"achbridge/wire"
)

// load makes sure that what is to be sent next is in data: the newest frame of
// the ring, unless a frame of several parts is under way. That one is finished
// first, so that ever newer frames do not starve it.
func (l *link) load(e *export, now time.Duration, room int) bool {
	if e.packing != wire.CodecNone {
		l.pack(e, room)
	}
	if e.out.Active() || e.packing != wire.CodecNone {
		return e.out.Pending()
	}
	next := now
	if e.qos.Class == Command {
		next = e.unseen(now) // before the note is read: what comes in between is not noted
	}
	at := e.note.read()
	at.next = next
	if at.newest <= e.loaded || now < e.retry || now < at.slot {
		return e.todo
	}
	if e.raw+wire.MaxFrameOverhead > room {
		l.share(e, at, now, room)
	} else {
		e.copy(at, now, room, l.pacer.Rate())
	}
	return e.todo || e.out.Pending()
}

// How soon a channel is tried again: one whose lock was taken, at first and when it
// stays taken, and one that could not be read (it goes on by itself, or the node
// finds what is wrong).
const (
	tryBusy   = 200 * time.Microsecond
	trySeldom = 10 * time.Millisecond
	tryAgain  = 100 * time.Millisecond
)

// copy takes a small newest frame out of the ring. It reads into a buffer of its
// own, so that a frame that may have to be sent again stays whole when this
// fails.
func (e *export) copy(at noted, now time.Duration, room int, rate float64) {
	n, err := e.r.TryNext(e.spare)
	if errors.Is(err, io.ErrShortBuffer) {
		e.spare = make([]byte, n)
		n, err = e.r.TryNext(e.spare)
	}
	if e.failed(err, now) {
		return
	}
	if e.r.Seq() > at.newest {
		at.seen = at.next // put after the watcher looked
	}
	if !e.begin(e.r.Seq(), n, at.seen, now) {
		return
	}
	e.buf, e.spare = e.spare, e.buf
	data, codec := e.packer.pack(e.buf[:n], rate)
	e.send(data, codec, room)
}

// share takes a large newest frame from the snapshots that all links share.
func (l *link) share(e *export, at noted, now time.Duration, room int) {
	s, err := e.copies.take(at.newest, at.seen)
	if e.failed(err, now) {
		return
	}
	captured := s.captured
	if e.qos.Class == Command { // for which what other links made of it is not enough
		if captured = at.seen; s.seq > at.newest {
			captured = at.next
		}
	}
	if !e.begin(s.seq, len(s.data), captured, now) {
		s.release()
		return
	}
	e.shared, e.packing = s, e.packer.plan(len(s.data), l.pacer.Rate())
	if e.packing == wire.CodecNone {
		e.send(s.data, wire.CodecNone, room)
		return
	}
	l.pack(e, room)
}

// pack goes on with the shared frame if it is packed by now; else the pump is
// woken when it is.
func (l *link) pack(e *export, room int) {
	f, ready := e.shared.packed(e.packing, l.n.packers.start, l.awake)
	if !ready {
		return
	}
	e.packer.learn(e.packing, len(e.shared.data), f)
	codec := e.packing
	e.packing = wire.CodecNone
	if f.data == nil {
		e.send(e.shared.data, wire.CodecNone, room)
		return
	}
	e.send(f.data, codec, room)
}

// failed notes why the channel could not be read, and when to try again.
func (e *export) failed(err error, now time.Duration) bool {
	if e.trouble = err; err == nil {
		e.busyFor = 0
		return false
	}
	e.retry = now + tryAgain
	if isBusy(err) || errors.Is(err, os.ErrDeadlineExceeded) {
		e.busyFor = longer(e.busyFor, tryBusy, trySeldom)
		e.retry = now + e.busyFor
	}
	return true
}

// begin makes frame seq the loaded one. False means that the ring runs backwards:
// the node will find out.
func (e *export) begin(seq uint64, size int, captured, now time.Duration) bool {
	if seq <= e.loaded {
		e.retry = now + tryAgain
		return false
	}
	slot, passed := e.note.next(now, e.qos.MaxRate.Interval())
	e.noted.slot = slot
	e.pass(seq, passed)
	if e.shared != nil {
		e.shared.release()
		e.shared = nil
	}
	e.before, e.captured = e.captured, captured
	e.loaded, e.copied, e.raw, e.left, e.again = seq, seq, size, false, false
	e.owed = e.over(captured, now)
	return true
}

// send has data sent as the loaded frame.
func (e *export) send(data []byte, codec wire.Codec, room int) {
	e.data, e.codec, e.size = data, codec, len(data)
	e.whole = len(data)+wire.MaxFrameOverhead <= room
	e.todo = e.whole
	if e.whole {
		return
	}
	count := wire.PartCount(len(data), room-wire.MaxPartOverhead)
	if count == 0 {
		e.book.refused++ // larger than the wire allows; offered() keeps such channels out
		return
	}
	e.out.Begin(e.loaded, len(data), count)
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
	case e.again: // the mirror counts it
	case e.todo && e.left:
		e.book.lost++
	case e.todo:
		e.book.superseded++
	}
	e.todo, e.lost = false, false
}

// frame is an entry with data of the loaded frame.
func (e *export) frame(data []byte) wire.Frame {
	return wire.Frame{Sub: e.id, Epoch: uint32(e.epoch), Seq: e.loaded, Captured: e.captured, Owed: e.owed, Codec: e.codec, RawSize: e.raw, Data: data}
}

// nextLook is when something changes here by itself, in the far future if nothing
// does.
func (e *export) nextLook(now time.Duration) time.Duration {
	next := now + time.Hour
	if e.noted.newest > e.loaded {
		for _, at := range [...]time.Duration{e.retry, e.noted.slot, e.captured + e.qos.budget()} {
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
	newest := e.note.read().newest
	if have >= e.loaded || newest > e.loaded || e.busy() || e.qos.Class == Command || e.tape != nil {
		return
	}
	if !e.left {
		if e.book.reopen(newest) { // the mirror had it when it subscribed, and has lost it since
			e.loaded, e.arrived = newest-1, have
		}
		return
	}
	e.owed, e.again = true, e.arrived >= e.loaded
	e.arrived = min(e.arrived, have)
	if e.whole {
		e.todo = true
		return
	}
	e.out.Begin(e.loaded, e.size, e.out.Count)
}
