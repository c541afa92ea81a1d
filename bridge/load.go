package bridge

import (
	"errors"
	"io"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/delivery"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// load makes sure that what is to be sent next is in data: the newest frame of
// the ring, unless a frame of several parts is under way. That one is finished
// first, so that ever newer frames do not starve it.
func (l *link) load(sub *subscription, now time.Duration, room int) bool {
	sub.wake()
	if sub.codecPending != wire.CodecNone {
		l.pack(sub, room)
	}
	if sub.older.out.Pending() {
		return true
	}
	if sub.out.Active() && !sub.overlaps() || sub.codecPending != wire.CodecNone {
		return sub.out.Pending()
	}
	next := now
	if sub.qos.Class == rule.Command {
		next = sub.clock.UnseenSince(now) // before arrivals are read: a frame that comes in between is newer than this
	}
	at := sub.arrivals.Newest()
	at.NextCapturedAt = next
	if !sub.request.Copying() && (at.Seq <= sub.loaded || now < sub.retry || now < at.SlotAt) {
		return sub.todo
	}
	if sub.raw+wire.MaxFrameOverhead > room || !sub.copy(at, now, room, l.control.Rate()) {
		l.share(sub, at, now, room)
	}
	l.gripe(sub)
	return sub.todo || sub.out.Pending()
}

// gripe tells, once a subscription, that frames of sub's channel cannot be sent.
func (l *link) gripe(sub *subscription) {
	cause := causeOf(sub.trouble)
	if sub.griped || cause != status.CauseBadFrame && cause != status.CauseLimit {
		return
	}
	sub.griped = true
	event := status.Event{Channel: sub.channel, Text: sub.trouble.Error()}
	l.n.work.Go(func() { // the node may be waiting for our lock
		l.n.post(func() { l.refusal("frames cannot be sent", event) })
	})
}

// How soon a channel is tried again, beside ring.AfterBusy and ring.AfterNoMemory: one that stays busy, and one that could
// not be read. It goes on by itself, or the node finds what is wrong.
const (
	trySeldom = 10 * time.Millisecond
	tryAgain  = 100 * time.Millisecond
)

// copy takes a small newest frame out of the ring. It reads into a buffer of its
// own, so that a frame that may have to be sent again stays whole when this
// fails. False means that the frame is not small.
func (sub *subscription) copy(at ring.Arrival, now time.Duration, room int, rate float64) bool {
	n, err := sub.r.TryNext(sub.spare)
	for tries := 0; errors.Is(err, io.ErrShortBuffer) && tries < 3; tries++ { // they may grow meanwhile
		if n+wire.MaxFrameOverhead > room {
			return false
		}
		sub.spare = make([]byte, n)
		n, err = sub.r.TryNext(sub.spare)
	}
	if errors.Is(err, localach.ErrHole) {
		return false
	}
	if sub.failed(err, now) {
		return true
	}
	if sub.r.Seq() > at.Seq {
		at.CapturedAt = at.NextCapturedAt // put after the watcher looked
	}
	if !sub.begin(sub.r.Seq(), n, at.CapturedAt, now) {
		return true
	}
	sub.buf, sub.spare = sub.spare, sub.buf
	data, codec := sub.compression.Compress(sub.buf[:n], rate)
	sub.send(data, codec, room)
	return true
}

// share takes a large newest frame from the snapshots that all links share.
func (l *link) share(sub *subscription, at ring.Arrival, now time.Duration, room int) {
	s, at, err := sub.request.Take(sub.copies, at, l.awake)
	if s == nil && err == nil {
		return // the frame is being copied
	}
	if no, ok := errors.AsType[*ring.Refusal](err); ok {
		sub.refuse(no, now)
		return
	}
	if sub.failed(err, now) {
		return
	}
	if !sub.begin(s.Seq, len(s.Data), s.CapturedFor(sub.qos.Class == rule.Command, at), now) {
		s.Release()
		return
	}
	sub.shared, sub.codecPending = s, sub.compression.Plan(len(s.Data), l.control.Rate())
	if sub.codecPending == wire.CodecNone {
		sub.send(s.Data, wire.CodecNone, room)
		return
	}
	l.pack(sub, room)
}

// pack goes on with the shared frame if it is packed by now; else the pump is
// woken when it is.
func (l *link) pack(sub *subscription, room int) {
	f, ready := sub.shared.Compressed(sub.codecPending, l.awake)
	if !ready {
		return
	}
	sub.compression.Learn(sub.codecPending, len(sub.shared.Data), f)
	codec := sub.codecPending
	sub.codecPending = wire.CodecNone
	if f.Data == nil {
		sub.send(sub.shared.Data, wire.CodecNone, room)
		return
	}
	sub.send(f.Data, codec, room)
}

// failed records why the channel could not be read, and when to try again.
func (sub *subscription) failed(err error, now time.Duration) bool {
	if sub.trouble = err; err == nil {
		sub.busyFor = 0
		return false
	}
	sub.waited = true
	sub.retry = now + tryAgain
	if errors.Is(err, ring.ErrNoMemory) {
		sub.retry = now + ring.AfterNoMemory
	}
	if ring.IsBusy(err) {
		sub.busyFor = clock.Longer(sub.busyFor, ring.AfterBusy, trySeldom)
		sub.retry = now + sub.busyFor
	}
	return true
}

// refuse settles a frame that cannot be sent.
func (sub *subscription) refuse(no *ring.Refusal, now time.Duration) {
	if sub.begin(no.Seq, no.Size, now, now) {
		sub.book.Refused++
		sub.data, sub.trouble = nil, no
	}
}

// letGo gives up the large frame that sub has when its memory is wanted for others, and
// has it loaded once more, when there is memory again.
func (sub *subscription) letGo(now time.Duration) {
	if sub.busy() {
		sub.abandon()
	}
	sub.endOlder()
	if sub.shared != nil {
		sub.shared.Release()
	}
	sub.shared, sub.data, sub.whole = nil, nil, false
	sub.request.Forget()
	sub.trouble, sub.retry = ring.ErrNoMemory, now+ring.AfterNoMemory
}

// abandon takes back that the loaded frame is being sent.
func (sub *subscription) abandon() {
	if !sub.again { // then the mirror counts it
		if sub.left {
			sub.book.Sent--
		}
		sub.loaded--
	}
	sub.todo, sub.left, sub.codecPending = false, false, wire.CodecNone
	sub.out.Abort()
}

// begin makes frame seq the loaded one. False means that the ring runs backwards:
// the node will find out.
func (sub *subscription) begin(seq uint64, size int, captured, now time.Duration) bool {
	if seq <= sub.loaded {
		sub.retry = now + tryAgain
		return false
	}
	slot, passed := sub.arrivals.UseSlot(now, sub.qos.MaxRate.Interval())
	sub.known.SlotAt = slot
	sub.pass(seq, passed)
	sub.growOlder()
	if sub.shared != nil {
		sub.shared.Release()
		sub.shared = nil
	}
	if seq <= sub.undated {
		captured = 0
	}
	sub.before, sub.captured = sub.captured, captured
	sub.loaded, sub.copied, sub.raw, sub.left, sub.again = seq, seq, size, false, false
	sub.request.Forget()
	sub.owed = sub.over(captured, now)
	return true
}

// send has data sent as the loaded frame.
func (sub *subscription) send(data []byte, codec wire.Codec, room int) {
	sub.data, sub.codec, sub.size = data, codec, len(data)
	sub.whole = len(data)+wire.MaxFrameOverhead <= room
	sub.todo = sub.whole
	if sub.whole {
		return
	}
	count := wire.PartCount(len(data), room-wire.MaxPartOverhead)
	if count == 0 {
		sub.book.Refused++ // larger than the wire allows; offered() keeps such channels out
		return
	}
	sub.out.Begin(sub.loaded, len(data), count)
}

// pass settles what the new frame seq means for those before it: those up to
// passed were there before the slot of max_rate.
func (sub *subscription) pass(seq, passed uint64) {
	skipped := seq - sub.loaded - 1
	limited := min(max(passed, sub.loaded)-sub.loaded, skipped)
	sub.book.Limited += limited
	sub.book.Superseded += skipped - limited
	if !sub.waited {
		sub.book.WithRoom += skipped - limited
	}
	sub.waited = false
	switch {
	case sub.again: // the mirror counts it
	case sub.todo && sub.left:
		sub.book.Lost++
	case sub.todo:
		sub.book.Superseded++
	}
	sub.todo, sub.lost = false, false
}

// frame is an entry with data of the loaded frame.
func (sub *subscription) frame(data []byte) wire.Frame {
	return wire.Frame{Sub: sub.id, Epoch: uint32(sub.epoch), Seq: sub.loaded, Captured: sub.captured, Owed: sub.owed, Codec: sub.codec, RawSize: sub.raw, Data: data}
}

// sending records that a packet of the loaded frame leaves.
func (sub *subscription) sending() {
	if !sub.left {
		sub.left, sub.progressAt = true, sub.clock.Now()
		sub.book.Sent++
	}
}

// delivered records that a piece has arrived.
func (sub *subscription) delivered(p delivery.Piece) {
	if !p.Whole && sub.older.out.Active() && p.Seq == sub.older.out.Seq {
		sub.deliveredOlder(p)
		return
	}
	if !p.Whole {
		sub.progressAt = sub.clock.Now()
		if !sub.out.Arrived(p.Seq, p.Index) {
			return
		}
	}
	sub.arrived = max(sub.arrived, p.Seq)
	if !sub.book.Acks.Add(p.Seq) {
		return
	}
	sub.book.Arrived++
	if p.Seq != sub.loaded {
		return
	}
	if sub.lost {
		sub.book.Repaired++
	}
	sub.todo, sub.lost = false, false
}

// missing records that a piece is lost. It is sent again, unless something
// newer has taken its place.
func (sub *subscription) missing(p delivery.Piece) {
	switch {
	case !p.Whole && sub.older.out.Lost(p.Seq, p.Index):
		sub.older.lost = true
	case !p.Whole:
		sub.lost = sub.out.Lost(p.Seq, p.Index) || sub.lost
	case sub.whole && p.Seq == sub.loaded && sub.arrived < p.Seq:
		sub.todo, sub.lost = true, true
	case sub.book.Acks.Saw(p.Seq): // another copy has come
	default:
		sub.book.Lost++
	}
}
