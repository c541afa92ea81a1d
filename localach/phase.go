package localach

import (
	"math/bits"
	"time"
)

// phase predicts the time of a channel's next put from polls of last_seq. A put is between the poll that found the frame and
// the poll before. phase advances these bounds by the period from frame to frame, which widens them by the error of the period
// and the jitter of the puts. Each poll that finds a frame narrows them. Times count from the watcher's start.
type phase struct {
	seq                 uint64
	early, late         time.Duration // bounds of the put of frame seq; late is 0 before the first frame
	period, periodError time.Duration // time between frames and its largest error; period is 0 if unknown
	jitter              time.Duration // mean deviation of puts from the period
	anchor              putTime       // the put from which the period is measured
	window              window        // window of the next frame
	missed              uint16        // one bit for each of the last 16 windows, set if it missed its frame
	useless             uint16        // likewise, set if ordinary polls would have found the frame as soon
	disabledUntil       time.Duration // there are no windows until this time
	disabledFor         time.Duration // how long windows were disabled the last time
}

// putTime has the bounds of the time of a put.
type putTime struct {
	seq         uint64
	early, late time.Duration
}

// window is the time for busy polling for the next frame. If both ends are equal, there is a single poll. Both are 0 if the
// next frame cannot be predicted.
type window struct {
	from, to time.Duration
	sure     bool // few of the last windows missed their frame, so polls before it are rare
}

const (
	maxWindow       = 100 * time.Microsecond
	minMargin       = 8 * time.Microsecond // before and after the expected time of the put
	maxMargin       = 40 * time.Microsecond
	minFrames       = 8 // frames before the period is used
	usefulPrecision = approach + minPause
	maxSpan         = 256 // maximum number of frames over which the period is measured, since clocks drift
	minPeriod       = 2 * pollFastest
	maxPeriod       = time.Second
	unproved        = 0x1f        // initial value of missed, as if five windows had missed their frame
	maxUseless      = 6           // with more useless windows, windows are disabled for a while
	maxMissed       = 1           // with more missed windows, ordinary polls continue before a window
	minDisable      = time.Second // shortest time without windows, also after other programs needed the CPU
	maxDisable      = time.Minute
)

// found records that the poll at now found frame seq, which the poll at before had not. It returns the next window.
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

// measure computes the period and its error from two puts. Jitter of the puts falsifies it, but the less, the more frames are
// between them. So each time their number has doubled, measure replaces the result even if its error is larger.
func (p *phase) measure(b putTime) {
	n := time.Duration(b.seq - p.anchor.seq)
	shortest, longest := (b.early-p.anchor.late)/n, (b.late-p.anchor.early)/n
	if loss := (longest - shortest) / 2; p.period == 0 || loss <= p.periodError || n&(n-1) == 0 {
		p.period, p.periodError = (shortest+longest)/2, loss
	}
}

// advance advances the bounds by n frames to the frame seen, and narrows them by the bounds of seen.
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
		if off := max(early-seen.late, seen.early-late); off > 0 { // the put deviates by at least off
			p.jitter += (min(off, maxWindow) - p.jitter) / 8
		}
	}
	switch {
	case p.early < p.late:
	case seen.late <= early: // the put was before the predicted time
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

// recordResult records whether the window missed its frame, and whether it was useless: the polls around the put are further apart
// than usefulPrecision. If the window began late and its first look found the frame, that does not count.
func (p *phase) recordResult(seen putTime) {
	w := p.window
	if w.to == w.from {
		return
	}
	missed := seen.seq != p.seq+1 || seen.early >= w.to || seen.early < w.from && seen.late <= w.from+minMargin
	p.missed, p.useless = p.missed<<1, p.useless<<1
	if missed {
		p.missed |= 1
	}
	if missed && (seen.seq != p.seq+1 || seen.late-seen.early > usefulPrecision) {
		p.useless |= 1
	}
	if bits.OnesCount16(p.useless) > maxUseless {
		p.disabledFor = min(max(2*p.disabledFor, minDisable), maxDisable)
		p.disabledUntil, p.missed, p.useless = seen.late+p.disabledFor, unproved, unproved
		p.period, p.anchor = 0, seen // measure the period again meanwhile
	}
}

// predict returns the window of the next frame.
func (p *phase) predict(now time.Duration) window {
	if p.period < minPeriod || p.period > maxPeriod || now < p.disabledUntil {
		return window{}
	}
	margin := min(minMargin+2*p.jitter, maxMargin) + p.periodError
	from, to := p.early+p.period-margin, p.late+p.period+margin
	if to-from > maxWindow {
		from += (to - from) / 2 // one poll in the middle halves the uncertainty
		to = from
	}
	if from <= now {
		return window{}
	}
	return window{from, to, bits.OnesCount16(p.missed) <= maxMissed}
}
