package clock

import "time"

// Stopwatch sums up the time between calls of Start and Stop.
type Stopwatch struct {
	before  time.Duration
	since   time.Duration
	running bool
}

// Start begins to count. It does nothing if the watch runs; Stop does nothing if it stands.
func (w *Stopwatch) Start(now time.Duration) {
	if !w.running {
		w.since, w.running = now, true
	}
}

func (w *Stopwatch) Stop(now time.Duration) {
	w.before, w.running = w.Total(now), false
}

func (w *Stopwatch) Total(now time.Duration) time.Duration {
	if !w.running {
		return w.before
	}
	return w.before + now - w.since
}

// Longer is the next wait after wait was too short: a quarter longer, at least least and at
// most most.
func Longer(wait, least, most time.Duration) time.Duration {
	return min(max(least, wait*5/4), most)
}
