package peers

import "time"

// allowance lets something happen burst times at once, and then once in every. It is not a rate.Limiter, since a dial to a real
// peer is given back.
type allowance struct {
	burst int
	every time.Duration
	full  time.Duration // when all burst are there again
}

// take takes one if it is there now.
func (a *allowance) take(now time.Duration) bool {
	if !a.has(now) {
		return false
	}
	a.full = max(a.full, now) + a.every
	return true
}

// has reports whether there is one now.
func (a *allowance) has(now time.Duration) bool {
	return max(a.full, now)+a.every-now <= time.Duration(a.burst)*a.every
}

// giveBack undoes a take.
func (a *allowance) giveBack() { a.full -= a.every }
