package clock

import "time"

// Stopwatch sums up the time between calls of Start and Stop.
type Stopwatch struct {
	before  time.Duration
	since   time.Duration
	running bool
}

// Start starts counting. It does nothing if the watch is running, and Stop does nothing if it is not.
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

// Longer returns the next interval of a retry: a quarter longer than wait, but within least and most.
func Longer(wait, least, most time.Duration) time.Duration {
	return min(max(least, wait*5/4), most)
}
