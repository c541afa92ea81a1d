package delivery

// Recent remembers which of the latest 64 numbers it has seen. The zero value has seen
// none.
type Recent struct {
	newest uint64
	bitmap uint64 // bit i: number newest-1-i was seen
}

// Add records number n. It reports false when n was seen before, or is too old to tell.
func (r *Recent) Add(n uint64) (first bool) {
	switch {
	case r.Has(n):
		return false
	case n > r.newest:
		shift := n - r.newest
		if r.newest == 0 || shift > 64 {
			r.bitmap = 0
		} else {
			r.bitmap = r.bitmap<<shift | 1<<(shift-1)
		}
		r.newest = n
		return true
	}
	r.bitmap |= 1 << (r.newest - n - 1)
	return true
}

// Saw reports whether number n was seen; false: it was not, or is too old to tell.
func (r *Recent) Saw(n uint64) bool { return r.newest <= n+64 && r.Has(n) }

// Has reports whether number n was seen, or is too old to tell.
func (r *Recent) Has(n uint64) bool {
	if n >= r.newest {
		return n == r.newest
	}
	back := r.newest - n
	return back > 64 || r.bitmap&(1<<(back-1)) != 0
}
