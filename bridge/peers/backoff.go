package peers

import (
	"math/rand/v2"
	"time"
)

const (
	firstBackoff = 100 * time.Millisecond
	// LastBackoff is the longest wait before a peer is dialled again.
	LastBackoff = 5 * time.Second
	// returnBackoff is the longest wait before a peer that was linked is dialled again, until it is gone for a hundred
	// times as long. So the time to notice a network's return is short against the time that it was gone.
	returnBackoff = 500 * time.Millisecond
	// hubBackoff is the longest wait before a host that had a link through the hub is dialled there again. A dial
	// costs nothing while there is no connection to the hub.
	hubBackoff = 200 * time.Millisecond
)

// Backoff returns a wait that grows with failures from 0.1 s to longest. A third of it is random, so that hosts which lost
// the same switch do not all dial in the same millisecond.
func Backoff(failures int, longest time.Duration) time.Duration {
	if failures == 0 {
		return 0
	}
	d := min(firstBackoff<<min(failures-1, 10), longest)
	return d - time.Duration(rand.Int64N(int64(d)/3))
}

// backoff returns how long to wait before p is dialled again after failures. silent is the silent link to p, nil for none.
func (p *peer) backoff(now time.Duration, failures int, silent *Link) time.Duration {
	longest := LastBackoff
	switch {
	case silent != nil:
		longest = returnBackoff
	case p.ending == lost:
		longest = min(max(returnBackoff, (now-p.endedAt)/100), LastBackoff)
	}
	return Backoff(failures, longest)
}
