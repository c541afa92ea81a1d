package delivery

// Recent remembers the newest number added, and which of the 64 numbers before it were
// added. The zero value is empty.
type Recent struct {
	newest uint64
	bitmap uint64 // bit i is set if number newest-1-i was added
}

// Add records number n. It returns false if n was added before or is older than the bitmap.
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

// Saw reports whether number n was added. It returns false if n is older than the bitmap.
func (r *Recent) Saw(n uint64) bool { return r.newest <= n+64 && r.Has(n) }

// Has reports whether number n was added, or is older than the bitmap.
func (r *Recent) Has(n uint64) bool {
	if n >= r.newest {
		return n == r.newest
	}
	back := r.newest - n
	return back > 64 || r.bitmap&(1<<(back-1)) != 0
}
