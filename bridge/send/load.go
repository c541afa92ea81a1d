package send

import (
	"errors"
	"io"
	"time"

	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/localach"
	"achbridge/wire"
)

// load makes the newest frame of the ring the current one, unless a large frame is on its way: that frame is finished first.
// Otherwise newer frames would starve it. load reports whether there is something to send.
func (l *Link) load(sub *Subscription, now time.Duration, room int) bool {
	sub.wake()
	f, source := &sub.current, &sub.source
	if f.phase == compressing {
		l.compress(sub, room)
	}
	if sub.older.phase == waiting {
		return true
	}
	if p := f.phase; p == compressing || f.isBusy() && !f.isWhole && !sub.overlaps() {
		return p == waiting
	}
	next := now
	if sub.qos.Class == rule.Command {
		next = source.clock.UnseenSince(now) // before arrivals are read: a frame that comes in between is newer than this
	}
	at := source.arrivals.Newest()
	at.NextCapturedAt = next
	if !source.request.Copying() && (at.Seq <= sub.loaded || now < source.retryAt || now < at.SlotAt) {
		return f.phase == waiting
	}
	if f.rawSize+wire.MaxFrameOverhead > room || !sub.copy(at, now, room, l.control.Rate()) {
		l.share(sub, at, now, room)
	}
	l.reportProblem(sub)
	return f.phase == waiting
}

// wake records, for a command channel, that its present frames may be from before the host was suspended. Needs the link's mu.
func (sub *Subscription) wake() {
	if sub.qos.Class == rule.Command && sub.source.slept() {
		sub.current.captured = 0
	}
}

// reportProblem reports to the node, once for each subscription, that frames of its channel cannot be sent.
func (l *Link) reportProblem(sub *Subscription) {
	if err := sub.source.unsendable(); err != nil {
		l.cfg.Spawn(func() { l.cfg.Unsendable(sub.source.ch.Name(), err) }) // the node may wait for l.mu
	}
}

// copy copies a small newest frame out of the ring. It reads into a spare buffer: if the read fails, the current frame can still
// be sent again. copy returns false if the frame is not small.
func (sub *Subscription) copy(at ring.Arrival, now time.Duration, room int, rate float64) bool {
	s := &sub.source
	n, err := s.reader.TryNext(s.nextBuffer)
	for tries := 0; errors.Is(err, io.ErrShortBuffer) && tries < 3; tries++ { // frames may grow meanwhile
		if n+wire.MaxFrameOverhead > room {
			return false
		}
		s.nextBuffer = make([]byte, n)
		n, err = s.reader.TryNext(s.nextBuffer)
	}
	if errors.Is(err, localach.ErrHole) {
		return false
	}
	if sub.failed(err, now) {
		return true
	}
	seq := s.reader.Seq()
	if seq > at.Seq {
		at.CapturedAt = at.NextCapturedAt // the watcher has not seen it yet
	}
	if !sub.begin(seq, n, at.CapturedAt, now) {
		return true
	}
	s.buf, s.nextBuffer = s.nextBuffer, s.buf
	data, codec := sub.compression.Compress(s.buf[:n], rate)
	sub.ready(data, codec, room)
	return true
}

// share takes a large newest frame from the snapshots that all links share.
func (l *Link) share(sub *Subscription, at ring.Arrival, now time.Duration, room int) {
	s, at, err := sub.source.request.Take(sub.source.copies, at, l.wakeFunc)
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
	f := &sub.current
	f.shared = s
	if !f.compress(sub.compression.Plan(len(s.Data), l.control.Rate())) {
		sub.ready(s.Data, wire.CodecNone, room)
		return
	}
	l.compress(sub, room)
}

// compress makes the current frame ready if its compression is done. Otherwise it wakes the send loop afterwards.
func (l *Link) compress(sub *Subscription, room int) {
	f := &sub.current
	compressed, done := f.shared.Compressed(f.wantedCodec, l.wakeFunc)
	if !done {
		return
	}
	sub.compression.Learn(f.wantedCodec, len(f.shared.Data), compressed)
	if compressed.Data == nil {
		sub.ready(f.shared.Data, wire.CodecNone, room)
		return
	}
	sub.ready(compressed.Data, f.wantedCodec, room)
}

// ready has data leave as the current frame.
func (sub *Subscription) ready(data []byte, codec wire.Codec, room int) {
	sub.size = len(data)
	if !sub.current.ready(data, codec, room) {
		sub.counters.Refused++ // larger than the wire allows; such channels are not offered
	}
}

// failed handles the result of a try to read the channel, and reports whether the try failed.
func (sub *Subscription) failed(err error, now time.Duration) bool {
	failed := sub.source.failed(err, now)
	sub.hasWaited = sub.hasWaited || failed
	return failed
}

// refuse settles a frame that cannot be sent.
func (sub *Subscription) refuse(no *ring.Refusal, now time.Duration) {
	if sub.begin(no.Seq, no.Size, now, now) {
		sub.counters.Refused++
		sub.source.problem = no
	}
}

// letGo gives back the memory of the current large frame, which is needed for other frames. The frame is loaded again when there
// is memory.
func (sub *Subscription) letGo(now time.Duration) {
	f := &sub.current
	if f.isBusy() {
		sub.abandon()
	}
	sub.endOlder()
	f.settle()
	f.release()
	f.isWhole = false
	sub.source.request.Forget()
	sub.source.failed(ring.ErrNoMemory, now)
}

// abandon makes the current frame count as not loaded.
func (sub *Subscription) abandon() {
	f := &sub.current
	if !f.isRepeat { // the mirror counts repeated frames
		if f.hasLeft {
			sub.counters.Sent--
		}
		sub.loaded--
	}
	f.hasLeft = false
	f.settle()
}

// begin makes frame seq the current one. It returns false if the numbers of the ring run backwards; the node notices that.
func (sub *Subscription) begin(seq uint64, size int, captured, now time.Duration) bool {
	if seq <= sub.loaded {
		sub.source.retryAt = now + tryAgain
		return false
	}
	slot, passed := sub.source.arrivals.UseSlot(now, sub.qos.MaxRate.Interval())
	sub.lastCollected.SlotAt = slot
	sub.pass(seq, passed)
	sub.growOlder()
	if seq <= sub.source.undated {
		captured = 0
	}
	sub.current.begin(seq, size, captured, sub.over(captured, now))
	sub.loaded, sub.copied = seq, seq
	sub.source.request.Forget()
	return true
}

// pass counts the frames that frame seq supersedes. Those up to passed arrived before the slot of max_rate.
func (sub *Subscription) pass(seq, passed uint64) {
	skipped := seq - sub.loaded - 1
	limited := min(max(passed, sub.loaded)-sub.loaded, skipped)
	sub.counters.Limited += limited
	sub.counters.Superseded += skipped - limited
	if !sub.hasWaited {
		sub.counters.WithRoom += skipped - limited
	}
	sub.hasWaited = false
	switch f := &sub.current; {
	case !f.isWhole || f.phase != waiting || f.isRepeat: // the mirror counts what is repeated
	case f.hasLeft:
		sub.counters.Lost++
	default:
		sub.counters.Superseded++
	}
}
