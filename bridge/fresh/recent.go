package fresh

// Recent remembers which of the latest 64 numbers it has seen. The zero value has seen
// none.
type Recent struct {
	newest uint64
	bitmap uint64 // bit i: number newest-1-i was seen
}

// Add records number n. It reports false when n was seen before, or is too old to tell.
func (r *Recent) Add(n uint64) (first bool) {
	switch {
	case n > r.newest:
		shift := n - r.newest
		if r.newest == 0 || shift > 64 {
			r.bitmap = 0
		} else {
			r.bitmap = r.bitmap<<shift | 1<<(shift-1)
		}
		r.newest = n
		return true
	case n == r.newest:
		return false
	}
	back := r.newest - n
	if back > 64 || r.bitmap&(1<<(back-1)) != 0 {
		return false
	}
	r.bitmap |= 1 << (back - 1)
	return true
}
