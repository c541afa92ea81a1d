package fresh

import "achbridge/wire"

// Assembly puts the parts of one large frame together. A part of a newer
// frame ends the older one: it would be superseded anyway. The zero value is
// ready. Memory: one frame, whose size the caller bounds.
type Assembly struct {
	seq   uint64
	buf   []byte
	there []bool
	left  int
	owed  bool
}

// Add takes one part, which wire has parsed. When the frame is complete Add
// returns it; the slice is valid until the next call.
func (a *Assembly) Add(p wire.Part) (frame []byte) {
	if p.Seq < a.seq || p.Seq == a.seq && a.other(p) {
		return nil
	}
	if p.Seq > a.seq || p.Owed && a.left == 0 {
		a.begin(p) // an owed frame may come a second time
	}
	if a.left == 0 || a.there[p.Index] {
		return nil
	}
	copy(a.buf[p.Index*wire.PartLen(p.Size, p.Count, 0):], p.Data)
	a.owed = a.owed || p.Owed
	a.there[p.Index] = true
	a.left--
	if a.left > 0 {
		return nil
	}
	return a.buf
}

// Owed reports whether a part of the frame said that it is owed.
func (a *Assembly) Owed() bool { return a.owed }

// other reports that p is of another frame with the same number.
func (a *Assembly) other(p wire.Part) bool { return len(a.there) != p.Count || len(a.buf) != p.Size }

func (a *Assembly) begin(p wire.Part) {
	if cap(a.buf) < p.Size {
		a.buf = make([]byte, p.Size)
	}
	if cap(a.there) < p.Count {
		a.there = make([]bool, p.Count)
	}
	a.seq, a.buf, a.there, a.left, a.owed = p.Seq, a.buf[:p.Size], a.there[:p.Count], p.Count, false
	clear(a.there)
}
