package delivery

// Outgoing tracks which parts of a large frame were sent to a peer and which have arrived.
// The zero value is idle.
type Outgoing struct {
	Seq   uint64
	Size  int // size of the frame, bytes
	Count int // number of parts

	next        int   // index of the first part that was never sent
	resend      []int // indices of parts that were lost
	there       []bool
	unsentParts int
	active      bool
}

// Begin starts frame seq of size bytes in count parts, and forgets an unfinished frame.
func (o *Outgoing) Begin(seq uint64, size, count int) {
	if cap(o.there) < count {
		o.there = make([]bool, count)
	}
	o.there = o.there[:count]
	clear(o.there)
	*o = Outgoing{Seq: seq, Size: size, Count: count, resend: o.resend[:0], there: o.there, unsentParts: count, active: true}
}

// Active reports whether a frame has begun and has not arrived completely.
func (o *Outgoing) Active() bool { return o.active }

// Abort forgets the frame.
func (o *Outgoing) Abort() { o.active = false }

// Unsent returns how many bytes of the frame were never sent.
func (o *Outgoing) Unsent() int { return o.Size * (o.Count - o.next) / max(1, o.Count) }

// Pending reports whether a part is to be sent, for the first time or again.
func (o *Outgoing) Pending() bool {
	return o.active && (o.next < o.Count || len(o.resend) > 0)
}

// Next returns the index of the next part to send. Lost parts are first, because they
// complete the frame soonest. ok is false if no part is to be sent.
func (o *Outgoing) Next() (index int, ok bool) {
	if !o.active {
		return 0, false
	}
	for len(o.resend) > 0 {
		index = o.resend[len(o.resend)-1]
		o.resend = o.resend[:len(o.resend)-1]
		if !o.there[index] {
			return index, true
		}
	}
	if o.next == o.Count {
		return 0, false
	}
	o.next++
	return o.next - 1, true
}

// Arrived records that a part has arrived. It reports whether that completes the frame.
func (o *Outgoing) Arrived(seq uint64, index int) bool {
	if !o.active || seq != o.Seq || index >= o.Count || o.there[index] {
		return false
	}
	o.there[index] = true
	o.unsentParts--
	if o.unsentParts == 0 {
		o.active = false
	}
	return o.unsentParts == 0
}

// Lost records that a part was lost, so that Next returns it again. It reports whether the
// part belongs to the current frame and had not arrived.
func (o *Outgoing) Lost(seq uint64, index int) bool {
	if !o.active || seq != o.Seq || index >= o.Count || o.there[index] {
		return false
	}
	o.resend = append(o.resend, index)
	return true
}
