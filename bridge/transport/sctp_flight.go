package transport

import "time"

// sctpFlight limits the unacknowledged bytes of streams. It is a congestion window as in RFC
// 5681, since the association's own window is held open for datagrams. The zero value is not
// ready.
type sctpFlight struct {
	limit, threshold int // bytes
	credit           int // acknowledged bytes towards the next step
	cut              time.Time
}

const (
	firstFlight = 10 * sctpPayload
	leastFlight = 4 * sctpPayload
	// mostFlight leaves datagrams half of the association's window.
	mostFlight = sctpWindow / 2
)

func newSCTPFlight() sctpFlight { return sctpFlight{limit: firstFlight, threshold: mostFlight} }

// acked raises the limit after n bytes were acknowledged. It is called only if the limit made
// a writer wait.
func (f *sctpFlight) acked(n int) {
	if f.limit < f.threshold {
		f.limit = min(f.limit+n, mostFlight)
		return
	}
	if f.credit += n; f.credit >= f.limit {
		f.credit -= f.limit
		f.limit = min(f.limit+sctpPayload, mostFlight)
	}
}

// lost halves the limit, once in a round trip.
func (f *sctpFlight) lost(now time.Time, rtt time.Duration) {
	if now.Sub(f.cut) < rtt {
		return
	}
	f.cut, f.credit = now, 0
	f.limit = max(f.limit/2, leastFlight)
	f.threshold = f.limit
}
