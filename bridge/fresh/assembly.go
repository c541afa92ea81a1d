package fresh

// Assembly puts the parts of one large frame together. A part of a newer
// frame ends the older one: it would be superseded anyway. The zero value is
// ready. Memory: one frame, at most the limit given to Add.
type Assembly struct {
	seq   uint64
	buf   []byte
	there []bool
	left  int
}

// Add takes part index of count of frame seq, whose whole size is size bytes;
// every part but the last carries ceil(size/count) bytes, which the caller has
// checked. When the frame is complete Add returns it; the slice is valid until
// the next call. gaveUp is true when an older frame was dropped for this one.
func (a *Assembly) Add(seq uint64, index, count, size int, data []byte) (frame []byte, gaveUp bool) {
	if seq < a.seq || seq == a.seq && (len(a.there) != count || len(a.buf) != size) {
		return nil, false
	}
	if seq > a.seq {
		gaveUp = a.left > 0
		a.begin(seq, count, size)
	}
	if a.left == 0 || a.there[index] {
		return nil, gaveUp
	}
	chunk := (size + count - 1) / count
	copy(a.buf[index*chunk:], data)
	a.there[index] = true
	a.left--
	if a.left > 0 {
		return nil, gaveUp
	}
	return a.buf, gaveUp
}

func (a *Assembly) begin(seq uint64, count, size int) {
	if cap(a.buf) < size {
		a.buf = make([]byte, size)
	}
	if cap(a.there) < count {
		a.there = make([]bool, count)
	}
	a.seq, a.buf, a.there, a.left = seq, a.buf[:size], a.there[:count], count
	clear(a.there)
}
