package bridge

import (
	"time"

	"achbridge/bridge/fresh"
	"achbridge/bridge/status"
)

// traffic is under the link's mu.
type traffic struct {
	sent, received uint64 // bytes
	full           stopwatch
}

func (t *traffic) out(size int) { t.sent += uint64(size) }
func (t *traffic) in(size int)  { t.received += uint64(size) }

// wait notes whether frames wait for the path from now on.
func (t *traffic) wait(now time.Duration, full bool) {
	if full {
		t.full.start(now)
	} else {
		t.full.stop(now)
	}
}

func (t *traffic) status(now time.Duration, f *fresh.Flight, r *fresh.Receipts) status.Traffic {
	s := status.Traffic{SentBytes: t.sent, ReceivedBytes: t.received, FullS: t.full.total(now).Seconds()}
	s.Sent, s.Lost = f.Count()
	s.Received, s.Missed = r.Count()
	return s
}

// stopwatch sums up how long something was so.
type stopwatch struct {
	before  time.Duration
	since   time.Duration
	running bool
}

// start and stop do nothing to one that runs or stands already.
func (w *stopwatch) start(now time.Duration) {
	if !w.running {
		w.since, w.running = now, true
	}
}

func (w *stopwatch) stop(now time.Duration) {
	w.before, w.running = w.total(now), false
}

func (w *stopwatch) total(now time.Duration) time.Duration {
	if !w.running {
		return w.before
	}
	return w.before + now - w.since
}
