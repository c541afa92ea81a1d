package bridge

import (
	"time"

	"achbridge/bridge/fresh"
	"achbridge/bridge/status"
)

// traffic is under the link's mu.
type traffic struct {
	sent, received uint64 // bytes
	full           fresh.Stopwatch
}

func (t *traffic) out(size int) { t.sent += uint64(size) }
func (t *traffic) in(size int)  { t.received += uint64(size) }

// wait notes whether frames wait for the path from now on.
func (t *traffic) wait(now time.Duration, full bool) {
	if full {
		t.full.Start(now)
	} else {
		t.full.Stop(now)
	}
}

func (t *traffic) status(now time.Duration, f *fresh.Flight, r *fresh.Receipts) status.Traffic {
	s := status.Traffic{SentBytes: t.sent, ReceivedBytes: t.received, FullS: t.full.Total(now).Seconds()}
	s.Sent, s.Lost = f.Count()
	s.Received, s.Missed = r.Count()
	return s
}
