package hub

import "time"

const (
	segment     = 1448 // bytes of a TCP segment on most paths
	firstWindow = 10 * segment
	// tightWindow lets two whole segments follow one that is not full: a receiver may delay the
	// acknowledgement of the one, by 40 ms, but not that of the others.
	tightWindow = 3 * segment
	mostWindow  = 8 << 20
	// leastBase is the round trip for which a window is at least computed: acknowledgements
	// are looked for once a millisecond.
	leastBase = 2 * time.Millisecond
	// leastHolds is how long the shortest round trip is believed.
	leastHolds = 10 * time.Second
	// probeRounds is for how many rounds the window is small, to see the path without a queue.
	probeRounds = 3
	// growRounds is after how many rounds the window tries whether the path carries more than it seems.
	growRounds = 8
	// rateFades is what remains of the best rate after a round.
	rateFades = 0.9
)

// window decides how many bytes may be unacknowledged: what the path carries in its shortest
// round trip, and one segment. More would wait in a queue of the path or of the kernel,
// where nothing replaces it. It is pure.
type window struct {
	size    int
	rate    float64       // bytes a second, the best of the last rounds
	least   time.Duration // shortest round trip
	leastAt time.Duration
	probing int
	rounds  int // that were limited
}

// round is one look at the path: bytes that were written at once, and what had been
// acknowledged when they were.
type round struct {
	Now       time.Duration
	Took      time.Duration // from the write to its acknowledgement
	Wrote     int           // bytes of that write
	Delivered int           // bytes acknowledged in that time
	Limited   bool          // something had to wait for the window
}

func newWindow() window { return window{size: firstWindow} }

func (w *window) take(r round) {
	if r.Took <= 0 {
		return
	}
	took := r.Took
	fresh := w.least == 0 || took < w.least
	if w.probing > 0 {
		w.probing--
		fresh = fresh || w.probing == probeRounds-2 // the first round that began with the small window
	}
	if fresh {
		w.least, w.leastAt = took, r.Now
	}
	if w.probing > 0 {
		return
	}
	busy := took > w.least*5/4+leastBase
	if !r.Limited && !busy {
		return
	}
	rate := float64(r.Delivered) / r.Took.Seconds()
	if !r.Limited { // this host sent no more: that says what the path carries at least
		if w.rate == 0 {
			return
		}
		rate = max(rate, w.rate)
	}
	w.rate = max(rate, w.rate*rateFades)
	if r.Now-w.leastAt > leastHolds {
		w.probing, w.size = probeRounds, tightWindow
		w.leastAt = r.Now
		return
	}
	gain := 1.0
	if !busy {
		gain = 1.5
	}
	if w.rounds++; w.rounds%growRounds == 0 {
		gain = 2
	}
	base := max(w.least, leastBase).Seconds()
	w.size = min(max(int(gain*w.rate*base)+segment, tightWindow), mostWindow)
}
