package hub

import "time"

const (
	segment     = 1448 // bytes of a TCP segment on most paths
	firstWindow = 10 * segment
	// tightWindow lets two whole segments follow a partial one. A receiver may delay the
	// acknowledgement of a partial segment by 40 ms, but not that of whole ones.
	tightWindow = 3 * segment
	mostWindow  = 8 << 20
	// leastBase is the smallest round trip from which a window is computed, since acknowledgements
	// are checked only once a millisecond.
	leastBase = 2 * time.Millisecond
	// leastHolds is how long the shortest round trip stays valid.
	leastHolds = 10 * time.Second
	// probeRounds is the number of rounds with a small window, to measure the path without a
	// queue.
	probeRounds = 3
	// growRounds is the number of rounds after which the window tests whether the path carries
	// more.
	growRounds = 8
	// rateFades is the factor by which the best rate decreases in each round.
	rateFades = 0.9
)

// window decides how many bytes may be unacknowledged: those that the path carries in its shortest
// round trip, and one segment. More would wait in a queue of the path or of the kernel, where a
// newer frame cannot replace them. window is pure: it has no clock and no I/O.
type window struct {
	size    int
	rate    float64       // bytes/s, the largest of the last rounds
	least   time.Duration // shortest round trip
	leastAt time.Duration
	probing int
	rounds  int // number of limited rounds
}

// round is one measurement of the path, from a write to its acknowledgement.
type round struct {
	Now       time.Duration
	Took      time.Duration // time from the write to its acknowledgement
	Delivered int           // bytes acknowledged in that time
	Limited   bool          // a write had to wait for the window
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
	if !r.Limited { // this host sent no more, so the rate is only a lower bound for the path
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
