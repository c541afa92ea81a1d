package hub

import "time"

// allowance limits how often something may happen: burst times at once, and then once in each period every.
type allowance struct {
	every time.Duration
	burst int
	free  time.Time // when burst times are allowed again
}

const (
	// A host may ask for requestBurst streams and consumers at once, as after the start of a hub, then for one every requestEvery.
	requestBurst = 4 * maxChannels
	requestEvery = 20 * time.Millisecond
	// A connection may send pullBurst pulls at once, then one every pullEvery. One pull brings one frame at most.
	pullBurst = 1000
	pullEvery = 100 * time.Microsecond
)

// take returns how long to wait until it is allowed once more. If that is 0, take counts it.
func (a *allowance) take(now time.Time) (wait time.Duration) {
	free := a.free
	if free.Before(now) {
		free = now
	}
	free = free.Add(a.every)
	if wait = free.Sub(now) - time.Duration(a.burst)*a.every; wait > 0 {
		return wait
	}
	a.free = free
	return 0
}
