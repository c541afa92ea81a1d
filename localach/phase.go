package localach

import (
	"math/bits"
	"time"
)

// phase predicts when a channel's next frame is put, only from looks at last_seq. The time of a put lies between the look that
// found the frame and the look before it. phase carries these bounds forward by the period, from frame to frame. Each step
// widens them by the uncertainty of the period and the jitter of the puts. Each look that finds a frame narrows them. Times
// count from the watcher's start.
type phase struct {
	seq                 uint64
	early, late         time.Duration // bounds of the time when frame seq was put; late is 0: no frame seen yet
	period, periodError time.Duration // time between frames, and its greatest error; period is 0: unknown
	jitter              time.Duration // mean deviation of puts from the period
	anchor              putTime       // the put from which the period is measured
	window              window        // of the next frame
	missed              uint16        // a bit for each of the latest windows: 1 if it missed its frame
	useless             uint16        // the same: 1 if the frame was found no sooner than ordinary looks find it
	disabledUntil       time.Duration // until this time there are no windows
	disabledFor         time.Duration // how long windows were barred the last time
}

// putTime is an earlier put.
type putTime struct {
	seq         uint64
	early, late time.Duration
}

// window is when to poll without pause for the next frame. If both ends are equal, there is a single look. Both are 0 if the
// next frame cannot be predicted.
type window struct {
	from, to time.Duration
	sure     bool // few of the latest windows missed their frame, so there are few looks before it
}

const (
	maxWindow       = 100 * time.Microsecond
	minMargin       = 8 * time.Microsecond // before and after the expected time of the put
	maxMargin       = 40 * time.Microsecond
	minFrames       = 8 // frames until the period is used
	usefulPrecision = approach + minPause
	maxSpan         = 256 // frames over which the period is measured; not more, since clocks drift
	minPeriod       = 2 * pollFastest
	maxPeriod       = time.Second
	unproved        = 0x1f // the first value of missed: as if five windows had been missed
	maxUseless      = 6    // with more vain windows than this, there are none for a while
	maxMissed       = 1    // with more missed windows than this, ordinary looks go on before the window
	minDisable      = time.Second
	maxDisable      = time.Minute
)

// found records that the look at now saw frame seq, and the look at before had not. It returns the window of the next frame.
func (p *phase) found(seq uint64, before, now time.Duration) window {
	seen := putTime{seq, before, now}
	switch n := int64(seq - p.seq); {
	case p.late == 0 || n <= 0 || now-p.late > 4*maxPeriod:
		*p = phase{anchor: seen, disabledUntil: p.disabledUntil, disabledFor: p.disabledFor, missed: unproved, useless: unproved}
	case p.period == 0:
		p.begin(seen)
	default:
		if p.recordResult(seen); p.period != 0 {
			p.advance(seen, time.Duration(n))
		}
	}
	if p.seq = seq; p.late == 0 || p.period == 0 {
		p.early, p.late = before, now
	}
	p.window = p.predict(now)
	return p.window
}

// begin measures the first period, once there are enough frames.
func (p *phase) begin(seen putTime) {
	if seen.seq-p.anchor.seq >= minFrames {
		p.measure(seen)
	}
}

// measure bounds the period by two puts and the bounds of their times. Puts that are not punctual mislead it, the less so the
// more frames lie between: so it measures anew after twice as many, whatever it knew before.
func (p *phase) measure(b putTime) {
	n := time.Duration(b.seq - p.anchor.seq)
	least, most := (b.early-p.anchor.late)/n, (b.late-p.anchor.early)/n
	if loss := (most - least) / 2; p.period == 0 || loss <= p.periodError || n&(n-1) == 0 {
		p.period, p.periodError = (least+most)/2, loss
	}
}

// advance carries the bounds n frames forward, to frame seen, and narrows them by what was seen.
func (p *phase) advance(seen putTime, n time.Duration) {
	doubt := n*p.periodError + p.jitter/2
	early, late := p.early+n*p.period-doubt, p.late+n*p.period+doubt
	middle := early + (late-early)/2
	if seen.late-seen.early <= minMargin { // the time of the put is known exactly
		off := seen.late - middle
		p.jitter += (min(max(off, -off), maxWindow) - p.jitter) / 8
		p.early, p.late = seen.early-off/2, seen.late-off/2 // count half of the deviation as jitter of this put
	} else {
		p.early, p.late = max(early, seen.early), min(late, seen.late)
		if off := max(early-seen.late, seen.early-late); off > 0 { // it deviates by so much at least
			p.jitter += (min(off, maxWindow) - p.jitter) / 8
		}
	}
	switch {
	case p.early < p.late:
	case seen.late <= early: // the frame came before the predicted time
		p.early, p.late = max(seen.early, seen.late-maxMargin), seen.late
	default:
		p.early, p.late = seen.early, min(seen.late, seen.early+maxMargin)
	}
	now := putTime{seen.seq, p.early, p.late}
	p.measure(now)
	if now.seq-p.anchor.seq >= maxSpan {
		p.anchor, p.periodError = now, max(p.periodError, p.period/10_000)
	}
}

// recordResult records whether the window missed its frame, and whether it was in vain: the frame was found by looks further apart
// than usefulPrecision. If the window began late and its first look found the frame, that does not count.
func (p *phase) recordResult(seen putTime) {
	w := p.window
	if w.to == w.from {
		return
	}
	missed := seen.seq != p.seq+1 || seen.early >= w.to || seen.early < w.from && seen.late <= w.from+minMargin
	p.missed, p.useless = p.missed<<1, p.useless<<1
	if missed { // of the latest 16
		p.missed |= 1
	}
	if missed && (seen.seq != p.seq+1 || seen.late-seen.early > usefulPrecision) {
		p.useless |= 1
	}
	if bits.OnesCount16(p.useless) > maxUseless {
		p.disabledFor = min(max(2*p.disabledFor, minDisable), maxDisable)
		p.disabledUntil, p.missed, p.useless = seen.late+p.disabledFor, unproved, unproved
		p.period, p.anchor = 0, seen // learn the period again meanwhile
	}
}

// predict is where to look for the next frame.
func (p *phase) predict(now time.Duration) window {
	if p.period < minPeriod || p.period > maxPeriod || now < p.disabledUntil {
		return window{}
	}
	margin := min(minMargin+2*p.jitter, maxMargin) + p.periodError
	from, to := p.early+p.period-margin, p.late+p.period+margin
	if to-from > maxWindow {
		from += (to - from) / 2 // one look in the middle halves the uncertainty
		to = from
	}
	if from <= now {
		return window{}
	}
	return window{from, to, bits.OnesCount16(p.missed) <= maxMissed}
}
