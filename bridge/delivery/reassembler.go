package delivery

import "achbridge/wire"

// reassembler reassembles one large frame from its parts. A part of a newer frame
// drops the incomplete older frame, which the newer one would supersede anyway.
// The zero value is ready. It keeps a buffer for one frame, whose size the caller bounds.
type reassembler struct {
	seq          uint64
	buf          []byte
	there        []bool
	missingParts int
	isLastValue  bool // a part was marked for last-value delivery
}

// add adds one part, which wire has parsed. It returns the frame when p completes
// it, else nil. The slice is valid until the next call.
func (a *reassembler) add(p wire.Part) (frame []byte) {
	if p.Seq < a.seq || p.Seq == a.seq && a.other(p) {
		return nil
	}
	if p.Seq > a.seq || p.LastValue && a.missingParts == 0 {
		a.begin(p) // last-value delivery may retransmit a frame that is complete
	}
	if a.missingParts == 0 || a.there[p.Index] {
		return nil
	}
	copy(a.buf[p.Index*wire.PartLen(p.Size, p.Count, 0):], p.Data)
	a.isLastValue = a.isLastValue || p.LastValue
	a.there[p.Index] = true
	a.missingParts--
	if a.missingParts > 0 {
		return nil
	}
	return a.buf
}

// other reports whether p belongs to another frame with the same number.
func (a *reassembler) other(p wire.Part) bool { return len(a.there) != p.Count || len(a.buf) != p.Size }

func (a *reassembler) begin(p wire.Part) {
	if cap(a.buf) < p.Size {
		a.buf = make([]byte, p.Size)
	}
	if cap(a.there) < p.Count {
		a.there = make([]bool, p.Count)
	}
	a.seq, a.buf, a.there, a.missingParts, a.isLastValue = p.Seq, a.buf[:p.Size], a.there[:p.Count], p.Count, false
	clear(a.there)
}

// MostOverlapping is the largest size, in bytes as sent, of a frame that may be in flight
// together with another frame of its subscription.
const MostOverlapping = 512 << 10

// Reassemblers reassembles up to two large frames of one subscription at a time. A part of a
// third frame drops the oldest one. A frame larger than MostOverlapping is reassembled without
// a second one. The zero value is ready. It uses up to ReassemblerBytes of the largest frame
// size, which the caller bounds.
type Reassemblers struct {
	newer, older reassembler
	isLastValue  bool
}

// ReassemblerBytes returns the maximum memory, in bytes, that Reassemblers uses if no frame is larger
// than largest bytes.
func ReassemblerBytes(largest int) int { return max(largest, min(2*largest, 2*MostOverlapping)) }

// Add adds one part, which wire has parsed. It returns the frame when p completes it, else
// nil. The slice is valid until the next call.
func (a *Reassemblers) Add(p wire.Part) (frame []byte) {
	to := &a.newer
	switch {
	case p.Seq < a.newer.seq && max(p.Size, len(a.newer.buf)) <= MostOverlapping:
		to = &a.older
	case p.Seq > a.newer.seq && max(p.Size, len(a.newer.buf)) <= MostOverlapping:
		a.newer, a.older = a.older, a.newer
	case p.Seq > a.newer.seq:
		a.older = reassembler{}
		if p.Size <= MostOverlapping {
			a.newer.buf = nil
		}
	}
	frame = to.add(p)
	a.isLastValue = to.isLastValue
	return frame
}

// LastValue reports whether any part of the frame passed to the last Add was marked for last-value
// delivery.
func (a *Reassemblers) LastValue() bool { return a.isLastValue }
