package sctp

import "time"

// flight limits the unacknowledged bytes of streams. It is a congestion window as in RFC
// 5681, since the association's own window is held open for datagrams. The zero value is not
// ready.
type flight struct {
	limit, threshold int // bytes
	credit           int // acknowledged bytes towards the next step
	cut              time.Time
}

const (
	firstFlight = 10 * maxPayload
	leastFlight = 4 * maxPayload
	// mostFlight leaves datagrams half of the association's window.
	mostFlight = minWindow / 2
)

func newFlight() flight { return flight{limit: firstFlight, threshold: mostFlight} }

// acked raises the limit after n bytes were acknowledged. It is called only if the limit made
// a writer wait.
func (f *flight) acked(n int) {
	if f.limit < f.threshold {
		f.limit = min(f.limit+n, mostFlight)
		return
	}
	if f.credit += n; f.credit >= f.limit {
		f.credit -= f.limit
		f.limit = min(f.limit+maxPayload, mostFlight)
	}
}

// lost halves the limit, once in a round trip.
func (f *flight) lost(now time.Time, rtt time.Duration) {
	if now.Sub(f.cut) < rtt {
		return
	}
	f.cut, f.credit = now, 0
	f.limit = max(f.limit/2, leastFlight)
	f.threshold = f.limit
}
