package fresh

import "time"

// Stopwatch sums up how long something was so.
type Stopwatch struct {
	before  time.Duration
	since   time.Duration
	running bool
}

// Start and Stop do nothing to one that runs or stands already.
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

// Longer is how long to wait after wait was not enough: a quarter longer, from least on
// up to most.
func Longer(wait, least, most time.Duration) time.Duration {
	return min(max(least, wait*5/4), most)
}
