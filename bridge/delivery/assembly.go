package delivery

import "achbridge/wire"

// assembly puts the parts of one large frame together. A part of a newer
// frame ends the older one: it would be superseded anyway. The zero value is
// ready. Memory: one frame, whose size the caller bounds.
type assembly struct {
	seq   uint64
	buf   []byte
	there []bool
	left  int
	owed  bool // a part of the frame said that it is owed
}

// add takes one part, which wire has parsed. When the frame is complete add
// returns it; the slice is valid until the next call.
func (a *assembly) add(p wire.Part) (frame []byte) {
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

// other reports that p is of another frame with the same number.
func (a *assembly) other(p wire.Part) bool { return len(a.there) != p.Count || len(a.buf) != p.Size }

func (a *assembly) begin(p wire.Part) {
	if cap(a.buf) < p.Size {
		a.buf = make([]byte, p.Size)
	}
	if cap(a.there) < p.Count {
		a.there = make([]bool, p.Count)
	}
	a.seq, a.buf, a.there, a.left, a.owed = p.Seq, a.buf[:p.Size], a.there[:p.Count], p.Count, false
	clear(a.there)
}

// MostOverlapping is the size in bytes, as sent, of the largest frames of which two may be
// under way at once.
const MostOverlapping = 512 << 10

// Assemblies puts the parts of two large frames of one subscription together. A part of a
// third one ends the oldest, and a frame above MostOverlapping is alone. The zero value is
// ready. Memory: AssemblyBytes of the largest frame, whose size the caller bounds.
type Assemblies struct {
	newer, older assembly
	owed         bool
}

// AssemblyBytes is how much memory, in bytes, Assemblies may need if no frame is larger than
// largest.
func AssemblyBytes(largest int) int { return max(largest, min(2*largest, 2*MostOverlapping)) }

// Add takes one part, which wire has parsed. When a frame is complete Add returns it; the
// slice is valid until the next call.
func (a *Assemblies) Add(p wire.Part) (frame []byte) {
	to := &a.newer
	switch {
	case p.Seq < a.newer.seq && max(p.Size, len(a.newer.buf)) <= MostOverlapping:
		to = &a.older
	case p.Seq > a.newer.seq && max(p.Size, len(a.newer.buf)) <= MostOverlapping:
		a.newer, a.older = a.older, a.newer
	case p.Seq > a.newer.seq:
		a.older = assembly{}
		if p.Size <= MostOverlapping {
			a.newer.buf = nil
		}
	}
	frame = to.add(p)
	a.owed = to.owed
	return frame
}

// Owed reports whether a part of the frame of the last call said that it is owed.
func (a *Assemblies) Owed() bool { return a.owed }
