package localach

import "time"

// Limits of the polling period, and how often the periods of silent channels are reviewed.
const (
	pollFastest      = 200 * time.Microsecond
	pollSlowest      = 2 * time.Millisecond
	pollGrain        = 50 * time.Microsecond
	pollsPerInterval = 4 // polls in the interval between two frames
	reviewEvery      = 50 * time.Millisecond
)

// pace estimates the interval between a channel's frames and from it the polling period.
type pace struct {
	period   time.Duration
	interval time.Duration // smoothed, at most pollsPerInterval × pollSlowest
	seq      uint64
	at       time.Duration // when seq was first seen
}

// newPace returns a pace with a medium period, which the first frame or silence changes.
func newPace(seq uint64, now time.Duration) pace {
	return pace{period: time.Millisecond, interval: pollsPerInterval * time.Millisecond, seq: seq, at: now}
}

// observe records that a poll found seq. It returns true if the period changed. A decreased last_seq counts as one frame.
func (p *pace) observe(seq uint64, now time.Duration) bool {
	frames := uint64(1)
	if p.seq != 0 && seq > p.seq {
		frames = seq - p.seq
	}
	interval := min((now-p.at)/time.Duration(frames), pollsPerInterval*pollSlowest)
	p.interval += (interval - p.interval) / 8
	p.seq, p.at = seq, now
	return p.adapt()
}

// silent records that there was no frame for a while. It returns true if the period changed.
func (p *pace) silent(now time.Duration) bool {
	if now-p.at < 4*p.interval || p.period == pollSlowest {
		return false
	}
	p.interval = min(2*p.interval, pollsPerInterval*pollSlowest)
	return p.adapt()
}

// adapt changes the period if the interval has changed by more than noise, since each change sets the timer.
func (p *pace) adapt() bool {
	want := min(max(p.interval/pollsPerInterval, pollFastest), pollSlowest).Round(pollGrain)
	if want == p.period || want > p.period*4/5 && want < p.period*5/4 {
		return false
	}
	p.period = want
	return true
}
