package send

import (
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/pacing"
	"achbridge/bridge/ring"
	"achbridge/wire"
)

// frame is a frame of a channel on its way to the peer. A small frame travels whole, in one
// datagram with others; a large one travels in parts. The link's mu guards it.
//
// Its phases, and what leads from one to the next:
//
//	           loaded          compressed   last packet left  packet lost  complete, or given up
//	settled    packing|waiting
//	packing                    waiting                                     settled
//	waiting                                 sent              waiting      settled
//	sent       packing|waiting                                waiting      settled
//
// After a whole frame was sent, the next one may be loaded at once. After a large frame it may only
// if the large frame becomes the older of two (Subscription.overlaps).
type frame struct {
	phase       phase // only the methods of frame change it
	seq         uint64
	captured    time.Duration // 0: unknown
	before      time.Duration // capture time of the frame that was loaded before it
	isLastValue bool          // sent even past the frame's budget, since the mirror has no newer frame
	isRepeat    bool          // the peer had it before, so the mirror counts it and the sender counters do not
	hasLeft     bool          // a packet of it has left
	hasLost     bool          // a packet of it was lost

	progressAt time.Duration // when its first packet left, or a part of it arrived last

	data        []byte // as it is sent; nil if its memory was needed for others
	codec       wire.Codec
	rawSize     int               // bytes, as it is in the ring
	shared      *ring.Snapshot    // holds data; nil if data is in source.buf
	wantedCodec wire.Codec        // in phase packing: by which shared is being compressed
	isWhole     bool              // before ready: whether the frame before it was whole
	parts       delivery.Outgoing // a whole frame is its only part
}

// phase is the phase of a frame.
type phase int

const (
	settled     phase = iota // nothing is left to do: there is no frame, or it arrived, or was given up
	compressing              // the frame is being compressed
	waiting                  // packets of it wait to leave
	sent                     // all of it has left, and feedback is missing
)

// isBusy reports whether no other frame may take the place of f yet.
func (f *frame) isBusy() bool {
	return f.phase == compressing || f.phase == waiting || f.phase == sent && !f.isWhole
}

// begin makes f frame seq, which has size bytes in the ring. It keeps the memory of parts. Until ready is called, f
// counts as whole if the frame before it did.
func (f *frame) begin(seq uint64, size int, captured time.Duration, isLastValue bool) {
	f.settle()
	f.release()
	*f = frame{seq: seq, rawSize: size, before: f.captured, captured: captured, isLastValue: isLastValue, isWhole: f.isWhole, parts: f.parts}
}

// skipTo makes f stand for frame seq, which is not sent.
func (f *frame) skipTo(seq uint64) {
	f.settle()
	f.seq, f.hasLeft = seq, false
}

// compress has shared compressed by a codec; false means that it leaves as it is.
func (f *frame) compress(by wire.Codec) bool {
	if by == wire.CodecNone {
		return false
	}
	f.phase, f.wantedCodec = compressing, by
	return true
}

// ready sets the bytes to send. room is the number of bytes that a datagram has for them. ready
// returns false if the wire carries no frame of this size.
func (f *frame) ready(data []byte, codec wire.Codec, room int) bool {
	f.phase, f.data, f.codec = settled, data, codec
	f.isWhole = len(data)+wire.MaxFrameOverhead <= room
	count := 1
	if !f.isWhole {
		count = wire.PartCount(len(data), room-wire.MaxPartOverhead)
	}
	if count == 0 {
		return false
	}
	f.parts.Begin(f.seq, len(data), count)
	f.phase = waiting
	return true
}

// repeat sends f again as a whole. isRepeat says whether the peer had it.
func (f *frame) repeat(isRepeat bool) {
	f.phase, f.isLastValue, f.isRepeat = waiting, true, isRepeat
	f.parts.Begin(f.seq, len(f.data), f.parts.Count)
}

// arrived records that a part has arrived; index is 0 for a whole frame. It reports whether f is
// complete now.
func (f *frame) arrived(index int) (complete bool) {
	if complete = f.parts.Arrived(f.seq, index); complete {
		f.phase = settled
	}
	return complete
}

// lost records that a packet was lost, and reports whether it will be sent again.
func (f *frame) lost(index int) bool {
	if !f.parts.Lost(f.seq, index) {
		return false
	}
	f.phase, f.hasLost = waiting, true
	return true
}

// settle ends the work on f.
func (f *frame) settle() {
	f.phase = settled
	f.parts.Abort()
}

// release gives the memory of f back.
func (f *frame) release() {
	if f.shared != nil {
		f.shared.Release()
	}
	f.shared, f.data = nil, nil
}

// entry returns the entry of a datagram that has data of f.
func (sub *Subscription) entry(f *frame, data []byte) wire.Frame {
	return wire.Frame{
		Sub: sub.id, Epoch: uint32(sub.epoch), Seq: f.seq, Captured: f.captured, LastValue: f.isLastValue, Codec: f.codec, RawSize: f.rawSize, Data: data,
	}
}

// leave returns the part of f that leaves now.
func (sub *Subscription) leave(f *frame, now time.Duration) (index int, ok bool) {
	if f.phase != waiting {
		return 0, false
	}
	if index, ok = f.parts.Next(); !f.parts.Pending() {
		f.phase = sent
	}
	if ok && !f.hasLeft {
		f.hasLeft, f.progressAt = true, now
		sub.counters.Sent++
	}
	return index, ok
}

// addWhole puts the current frame into the datagram.
func (l *Link) addWhole(builder *datagramBuilder, sub *Subscription, now time.Duration) {
	f := &sub.current
	sub.leave(f, now)
	builder.body = wire.AppendFrame(builder.body, now, sub.entry(f, f.data))
	builder.pieces = append(builder.pieces, delivery.Piece{Sub: sub.id, Seq: f.seq, Whole: true})
}

// addPart puts the next part of f into the datagram.
func (l *Link) addPart(builder *datagramBuilder, sub *Subscription, f *frame, now time.Duration) {
	index, ok := sub.leave(f, now)
	if !ok {
		return
	}
	builder.cargo = pacing.Parts
	p := &f.parts
	from := index * wire.PartLen(p.Size, p.Count, 0)
	part := wire.Part{Frame: sub.entry(f, f.data[from:from+wire.PartLen(p.Size, p.Count, index)]), Size: p.Size, Index: index, Count: p.Count}
	builder.body = wire.AppendPart(builder.body, now, part)
	builder.pieces = append(builder.pieces, delivery.Piece{Sub: sub.id, Seq: f.seq, Index: index})
}

// delivered handles a report that a piece has arrived.
func (sub *Subscription) delivered(p delivery.Piece, now time.Duration) {
	f := sub.frameOf(p)
	if f != nil {
		f.progressAt = now
	}
	if complete := f != nil && f.arrived(p.Index); !p.Whole && !complete {
		return
	}
	sub.arrived = max(sub.arrived, p.Seq)
	if f == &sub.older {
		f.release()
	}
	if !sub.counters.Acks.Add(p.Seq) {
		return
	}
	sub.counters.Arrived++
	if f != nil && f.hasLost {
		f.hasLost = false
		sub.counters.Repaired++
	}
}

// missing handles the loss of a piece. The piece is sent again, unless a newer frame has taken the
// place of its frame.
func (sub *Subscription) missing(p delivery.Piece) {
	if f := sub.frameOf(p); f != nil && f.lost(p.Index) {
		return
	}
	if p.Whole && !sub.counters.Acks.Saw(p.Seq) { // no other copy has come
		sub.counters.Lost++
	}
}

// frameOf returns the frame on its way that a piece belongs to, nil if its place was taken.
func (sub *Subscription) frameOf(p delivery.Piece) *frame {
	for _, f := range [...]*frame{&sub.older, &sub.current} {
		if f.seq == p.Seq && f.isWhole == p.Whole && f.hasLeft {
			return f
		}
	}
	return nil
}

// overlaps reports whether the next frame may begin although feedback on the current one is missing:
// all of its parts have left, and no queue is on the path.
func (sub *Subscription) overlaps() bool {
	f := &sub.current
	return sub.isPathDrained && f.phase == sent && !f.isWhole && !f.isRepeat && !f.isLastValue && f.shared != nil && f.parts.Size <= delivery.MostOverlapping
}

// growOlder makes the current frame the older of two, if it is a large one on its way. All of it has left; lost
// parts of it go first, for as long as it is in time and the mirror has nothing newer. A third frame ends the oldest.
func (sub *Subscription) growOlder() {
	if sub.current.isWhole || sub.current.phase != sent {
		return
	}
	sub.endOlder()
	sub.older, sub.current = sub.current, sub.older
}

// endOlder gives the older frame up, if there is one.
func (sub *Subscription) endOlder() {
	if sub.older.isBusy() {
		sub.counters.Lost++
	}
	sub.older.settle()
	sub.older.release()
}
