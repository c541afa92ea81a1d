package stamps

import (
	"time"

	"achbridge/bridge/clock"
)

// Estimate is an estimate of the difference between two hosts' CLOCK_MONOTONIC.
type Estimate struct {
	Now       time.Duration // our clock
	Offset    time.Duration // our clock minus the origin's
	Error     time.Duration // greatest error of Offset
	IsKnown   bool          // whether Offset is known
	Suspended time.Duration // total time for which this host had been suspended when Offset was measured
	Boot      [16]byte      // identifies the boot of the origin to which Offset belongs
	IsRelayed bool          // a host between the origin and this host has measured a part of Offset
}

// Offset is the difference by which the stamps of one origin are shifted. It follows the estimates slowly, since
// programs divide by the differences of stamps. The zero Offset is unknown.
type Offset struct {
	value, err time.Duration
	isTaken    bool
	at         time.Duration // until when value and err have followed, by our clock
	suspended  time.Duration
	boot       [16]byte

	directUntil time.Duration // until then relayed estimates have no effect
	doubtedAt   time.Duration // since when relayed estimates rule the offset out; 0 if they do not
}

const (
	// followRate is the divisor for the speed at which Offset follows: 500 ppm. Two clocks that may both be wrong by
	// 100 ppm drift apart by 200 ppm at most.
	followRate = 2000
	// stepError is the error above which Offset steps. Offset would need more than 100 s to remove it.
	stepError = 50 * time.Millisecond
	// directFor is how long relayed estimates have no effect after a direct one, which needs nobody's word.
	directFor = 10 * time.Second
	// confirmTime is how long relayed estimates must rule the offset out before it steps. While the relay wakes from a
	// suspension, one half of the estimate can be older than the other.
	confirmTime = 2 * time.Second
)

// Follow moves the offset towards the estimate. It returns the offset and its greatest error. The offset steps at once
// if the origin's boot has changed, this host was suspended, or the error exceeds stepError and the estimate rules the
// offset out. step is then how far it has moved; it is 0 otherwise. ok is false while the offset is unknown or in doubt.
func (o *Offset) Follow(e Estimate) (offset, err, step time.Duration, ok bool) {
	isOurs := o.isTaken && e.Boot == o.boot && !clock.Slept(o.suspended, e.Suspended)
	if e.IsKnown && !e.IsRelayed {
		o.directUntil = e.Now + directFor
	}
	switch {
	case isOurs && e.IsRelayed && e.Now < o.directUntil:
		return o.value, o.err + max(0, e.Now-o.at)/followRate, 0, true
	case isOurs && clock.Slept(e.Suspended, o.suspended):
		e.IsKnown = false // it was measured before the suspension
	case !isOurs && !e.IsKnown:
		return 0, 0, 0, false
	case !isOurs:
		return o.take(e)
	}
	most := max(0, e.Now-o.at) / followRate
	o.at += most * followRate // the remainder counts the next time
	if !e.IsKnown {
		o.err += most // the clocks drift apart by less than that
		o.doubtedAt = 0
		return o.value, o.err, 0, true
	}
	if off := (e.Offset - o.value).Abs(); off > e.Error && off+e.Error > stepError {
		if e.IsRelayed && !o.isConfirmed(e.Now) {
			return 0, 0, 0, false
		}
		return o.take(e)
	}
	o.doubtedAt = 0
	o.value += min(max(e.Offset-o.value, -most), most)
	o.err = max(e.Error+(e.Offset-o.value).Abs(), o.err-most)
	return o.value, o.err, 0, true
}

// isConfirmed reports whether relayed estimates have ruled the offset out for confirmTime.
func (o *Offset) isConfirmed(now time.Duration) bool {
	if o.doubtedAt == 0 {
		o.doubtedAt = now
	}
	return now-o.doubtedAt >= confirmTime
}

// take sets the offset to an estimate that is known.
func (o *Offset) take(e Estimate) (offset, err, step time.Duration, ok bool) {
	if o.isTaken {
		step = e.Offset - o.value
	}
	*o = Offset{value: e.Offset, err: e.Error, isTaken: true, at: e.Now, suspended: e.Suspended, boot: e.Boot, directUntil: o.directUntil}
	return o.value, o.err, step, true
}
