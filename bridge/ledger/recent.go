package ledger

import "time"

// Recent stores counters at most once every recentEvery, and the last recentKept of them.
const (
	recentEvery = time.Second
	recentKept  = 10
)

// Recent stores a mirror's frame counters of the last ten seconds, for the share of lost frames. In the total
// counters, a jump of the origin's frame numbers would affect that share until the daemon stops. The zero value
// is ready to use.
type Recent struct {
	ringBuffer [recentKept]FrameCounters // ring buffer; initially zero
	next       int                       // index of the oldest entry
	at         time.Duration             // when the newest entry was stored; 0 before the first
}

// Keep stores the counters at now. It ignores them if the last ones were stored less than a second before.
func (r *Recent) Keep(now time.Duration, a FrameCounters) {
	if r.at != 0 && now < r.at+recentEvery {
		return
	}
	r.ringBuffer[r.next], r.at = a, now
	r.next = (r.next + 1) % recentKept
}

// Growth returns by how much the counters in a exceed those of ten seconds ago.
func (r *Recent) Growth(a FrameCounters) FrameCounters { return a.GrownBy(r.ringBuffer[r.next]) }
