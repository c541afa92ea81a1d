package sctp

import "time"

// congestionWindow limits the unacknowledged bytes of streams. It works as in RFC 5681, since the
// association's own window is kept open for datagrams. The zero value is not ready.
type congestionWindow struct {
	limit, threshold int // bytes
	credit           int // acknowledged bytes towards the next step
	cut              time.Time
}

const (
	initialCwnd = 10 * maxPayload
	minCwnd     = 4 * maxPayload
	// maxCwnd leaves half of the association's window to datagrams.
	maxCwnd = minWindow / 2
)

func newCongestionWindow() congestionWindow {
	return congestionWindow{limit: initialCwnd, threshold: maxCwnd}
}

// acked raises the limit after n bytes were acknowledged. Call it only if a writer had to wait
// for the limit.
func (f *congestionWindow) acked(n int) {
	if f.limit < f.threshold {
		f.limit = min(f.limit+n, maxCwnd)
		return
	}
	if f.credit += n; f.credit >= f.limit {
		f.credit -= f.limit
		f.limit = min(f.limit+maxPayload, maxCwnd)
	}
}

// lost halves the limit, once in a round trip.
func (f *congestionWindow) lost(now time.Time, rtt time.Duration) {
	if now.Sub(f.cut) < rtt {
		return
	}
	f.cut, f.credit = now, 0
	f.limit = max(f.limit/2, minCwnd)
	f.threshold = f.limit
}
