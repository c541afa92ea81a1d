package send

import (
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/pacing"
	"achbridge/bridge/ring"
	"achbridge/wire"
)

// olderFrame is a large frame that is still on its way when the next one begins to leave.
// All of it has left; what the network lost of it goes first, for as long as it is in time
// and the mirror has nothing newer.
type olderFrame struct {
	out      delivery.Outgoing
	frame    wire.Frame // without data
	data     []byte
	shared   *ring.Snapshot // holds data
	captured time.Duration
	lost     bool
}

// overlaps reports that the next frame may begin though word of the loaded one is
// missing: all of that has left.
func (sub *Subscription) overlaps() bool {
	return !sub.early && sub.out.Active() && !sub.out.Pending() && !sub.again && !sub.owed && sub.shared != nil &&
		sub.size <= delivery.MostOverlapping
}

// growOlder makes the loaded frame, when it is on its way, the older of two. A third ends
// the oldest.
func (sub *Subscription) growOlder() {
	if !sub.out.Active() {
		return
	}
	sub.endOlder()
	sub.older.out, sub.out = sub.out, sub.older.out
	sub.older.frame, sub.older.data, sub.older.shared = sub.frame(nil), sub.data, sub.shared
	sub.older.captured, sub.older.lost = sub.captured, sub.lost
	sub.shared = nil
	sub.out.Abort()
}

// endOlder gives the older frame up, if there is one.
func (sub *Subscription) endOlder() {
	if sub.older.out.Active() {
		sub.book.Lost++
	}
	sub.forgetOlder()
}

func (sub *Subscription) forgetOlder() {
	sub.older.out.Abort()
	if sub.older.shared != nil {
		sub.older.shared.Release()
	}
	sub.older.shared, sub.older.data = nil, nil
}

// deliveredOlder records that a part of the older frame has arrived.
func (sub *Subscription) deliveredOlder(p delivery.Piece) {
	if !sub.older.out.Arrived(p.Seq, p.Index) {
		return
	}
	lost := sub.older.lost
	sub.forgetOlder()
	sub.arrived = max(sub.arrived, p.Seq)
	if sub.book.Acks.Add(p.Seq) {
		sub.book.Arrived++
		if lost {
			sub.book.Repaired++
		}
	}
}

// addRepair sends a part of the older frame again.
func (l *Link) addRepair(box *outbox, sub *Subscription, now time.Duration) {
	o := &sub.older
	index, ok := o.out.Next()
	if !ok {
		return
	}
	box.cargo = pacing.Parts
	from := index * wire.PartLen(o.out.Size, o.out.Count, 0)
	f := o.frame
	f.Data = o.data[from : from+wire.PartLen(o.out.Size, o.out.Count, index)]
	box.body = wire.AppendPart(box.body, now, wire.Part{Frame: f, Size: o.out.Size, Index: index, Count: o.out.Count})
	box.pieces = append(box.pieces, delivery.Piece{Sub: sub.id, Seq: o.out.Seq, Index: index})
}
