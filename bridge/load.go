package bridge

import (
	"errors"
	"io"
	"os"
	"time"

	"achbridge/bridge/fresh"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// load makes sure that what is to be sent next is in data: the newest frame of
// the ring, unless a frame of several parts is under way. That one is finished
// first, so that ever newer frames do not starve it.
func (l *link) load(e *export, now time.Duration, room int) bool {
	e.wake()
	if e.packing != wire.CodecNone {
		l.pack(e, room)
	}
	if e.out.Active() || e.packing != wire.CodecNone {
		return e.out.Pending()
	}
	next := now
	if e.qos.Class == rule.Command {
		next = e.unseen(now) // before the note is read: what comes in between is not noted
	}
	at := e.note.read()
	at.next = next
	if at.newest <= e.loaded || now < e.retry || now < at.slot {
		return e.todo
	}
	if e.raw+wire.MaxFrameOverhead > room || !e.copy(at, now, room, l.pacer.Rate()) {
		l.share(e, at, now, room)
	}
	l.gripe(e)
	return e.todo || e.out.Pending()
}

// gripe tells, once a subscription, that frames of e's channel cannot be sent.
func (l *link) gripe(e *export) {
	cause := causeOf(e.trouble)
	if e.griped || cause != status.CauseBadFrame && cause != status.CauseLimit {
		return
	}
	e.griped = true
	event := status.Event{Channel: e.channel, Text: e.trouble.Error()}
	l.n.work.Go(func() { // the node may be waiting for our lock
		l.n.post(func() { l.refusal("frames cannot be sent", event) })
	})
}

// How soon a channel is tried again: one whose lock was taken, at first and when it
// stays taken, one that could not be read (it goes on by itself, or the node finds
// what is wrong), and one for whose frames there is no memory.
const (
	tryBusy    = 200 * time.Microsecond
	trySeldom  = 10 * time.Millisecond
	tryAgain   = 100 * time.Millisecond
	tryRefused = time.Second
)

// copy takes a small newest frame out of the ring. It reads into a buffer of its
// own, so that a frame that may have to be sent again stays whole when this
// fails. False means that the frame is not small.
func (e *export) copy(at noted, now time.Duration, room int, rate float64) bool {
	n, err := e.r.TryNext(e.spare)
	for tries := 0; errors.Is(err, io.ErrShortBuffer) && tries < 3; tries++ { // they may grow meanwhile
		if n+wire.MaxFrameOverhead > room {
			return false
		}
		e.spare = make([]byte, n)
		n, err = e.r.TryNext(e.spare)
	}
	if errors.Is(err, localach.ErrHole) {
		return false
	}
	if e.failed(err, now) {
		return true
	}
	if e.r.Seq() > at.newest {
		at.seen = at.next // put after the watcher looked
	}
	if !e.begin(e.r.Seq(), n, at.seen, now) {
		return true
	}
	e.buf, e.spare = e.spare, e.buf
	data, codec := e.packer.pack(e.buf[:n], rate)
	e.send(data, codec, room)
	return true
}

// share takes a large newest frame from the snapshots that all links share. One that
// is still being copied is what it was when it was asked for first, however many
// newer ones come meanwhile: they would starve it.
func (l *link) share(e *export, at noted, now time.Duration, room int) {
	if e.copying {
		at = e.wanted
		ended, err := e.copies.ended(e.awaited)
		if !ended {
			return
		}
		if err != nil {
			e.copying = false
			e.failed(err, now)
			return
		}
	}
	s, err := e.copies.take(at.newest, at.seen)
	if e.copying = err == errCopying; e.copying {
		e.wanted, e.awaited = at, e.copies.await(l.awake)
		return
	}
	if no, ok := errors.AsType[*refusal](err); ok {
		e.refuse(no, now)
		return
	}
	if e.failed(err, now) {
		return
	}
	captured := s.captured
	if e.qos.Class == rule.Command { // for which what other links made of it is not enough
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
	if errors.Is(err, errNoMemory) {
		e.retry = now + tryRefused
	}
	if errors.Is(err, errMakingRoom) || errors.Is(err, localach.ErrBusy) || errors.Is(err, os.ErrDeadlineExceeded) {
		e.busyFor = fresh.Longer(e.busyFor, tryBusy, trySeldom)
		e.retry = now + e.busyFor
	}
	return true
}

// refuse settles a frame that cannot be sent.
func (e *export) refuse(no *refusal, now time.Duration) {
	if e.begin(no.seq, no.size, now, now) {
		e.book.Refused++
		e.data, e.trouble = nil, no.err
	}
}

// letGo gives up the large frame that e has when its memory is wanted for others, and
// has it loaded once more, when there is memory again.
func (e *export) letGo(now time.Duration) {
	if e.busy() {
		e.abandon()
	}
	if e.shared != nil {
		e.shared.release()
	}
	e.shared, e.data, e.whole = nil, nil, false
	e.trouble, e.retry = errNoMemory, now+tryRefused
}

// abandon takes back that the loaded frame is being sent.
func (e *export) abandon() {
	if !e.again { // then the mirror counts it
		if e.left {
			e.book.Sent--
		}
		e.loaded--
	}
	e.todo, e.left, e.packing = false, false, wire.CodecNone
	e.out.Abort()
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
	if seq <= e.undated {
		captured = 0
	}
	e.before, e.captured = e.captured, captured
	e.loaded, e.copied, e.raw, e.left, e.again, e.copying = seq, seq, size, false, false, false
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
		e.book.Refused++ // larger than the wire allows; offered() keeps such channels out
		return
	}
	e.out.Begin(e.loaded, len(data), count)
}

// pass settles what the new frame seq means for those before it: those up to
// passed were there before the slot of max_rate.
func (e *export) pass(seq, passed uint64) {
	skipped := seq - e.loaded - 1
	limited := min(max(passed, e.loaded)-e.loaded, skipped)
	e.book.Limited += limited
	e.book.Superseded += skipped - limited
	switch {
	case e.again: // the mirror counts it
	case e.todo && e.left:
		e.book.Lost++
	case e.todo:
		e.book.Superseded++
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
		for _, at := range [...]time.Duration{e.retry, e.noted.slot, e.captured + e.qos.EffectiveBudget()} {
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
		e.book.Sent++
	}
}

// delivered records that a piece has arrived.
func (e *export) delivered(p fresh.Piece) {
	if !p.Whole && !e.out.Arrived(p.Seq, p.Index) {
		return
	}
	e.arrived = max(e.arrived, p.Seq)
	if !e.book.Acks.Add(p.Seq) {
		return
	}
	e.book.Arrived++
	if p.Seq != e.loaded {
		return
	}
	if e.lost {
		e.book.Repaired++
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
		e.book.Lost++
	}
}

// owe sends the newest frame once more, past its budget or not: the mirror has
// only frame have. If there is something newer, that is on its way by itself.
func (e *export) owe(have uint64) {
	newest := e.note.read().newest
	if have >= e.loaded || newest > e.loaded || e.busy() || e.qos.Class == rule.Command || e.tape != nil {
		return
	}
	if e.left && e.data == nil { // its memory was wanted for others
		e.book.Sent--
		e.left, e.loaded, e.arrived = false, newest-1, have
		return
	}
	if !e.left {
		if e.book.Reopen(newest) { // the mirror had it when it subscribed, and has lost it since
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
