package localach

import (
	"math/bits"
	"time"
)

// phase predicts the time of a channel's next put from polls of last_seq. The put of a frame was between the poll that found the
// frame and the poll before it: these are the bounds of the put. To get the bounds of the next put, phase adds the period, and
// widens them by the error of the period and the jitter of the puts. The poll that finds the next frame narrows them again. Times
// count from the watcher's start.
type phase struct {
	seq                 uint64
	early, late         time.Duration // bounds of the put of frame seq; late is 0 before the first frame
	period, periodError time.Duration // time between two puts, 0 if unknown, and its largest error
	jitter              time.Duration // mean deviation of puts from the period
	anchor              putTime       // the put from which the period is measured
	expected            expected      // prediction of the next put
	wrong               uint16        // one bit for each of the last 16 predictions, set if it was wrong
	useless             uint16        // likewise, set if ordinary polls would have found the frame as soon
	disabledUntil       time.Duration // there are no predictions until this time
	disabledFor         time.Duration // for how long predictions were disabled the last time
}

// putTime has the number of a frame and the bounds of the time of its put.
type putTime struct {
	seq         uint64
	early, late time.Duration
}

// expected has the times of the next polls and the predicted put. All are 0 if the put cannot be predicted.
type expected struct {
	first    time.Duration // time of an additional poll before at, which shows whether puts have become earlier; at if there is none
	at       time.Duration // time of the poll that should find the frame
	from, to time.Duration // bounds of the put
	sure     bool          // few of the last predictions were wrong, so until first the channel is polled as a silent one
}

const (
	minMargin       = 8 * time.Microsecond // the predicted bounds are wider by at least this, at both ends
	maxMargin       = 40 * time.Microsecond
	narrow          = 60 * time.Microsecond  // if the bounds are further apart, the poll is in their middle instead of at their end
	wide            = 200 * time.Microsecond // if the bounds are further apart, the prediction is not sure
	maxJitter       = 100 * time.Microsecond
	minFrames       = 8 // frames before the period is used
	usefulPrecision = approach + minPause
	maxSpan         = 256 // maximum number of frames over which the period is measured, since clocks drift
	minPeriod       = 2 * pollFastest
	maxPeriod       = time.Second
	unproved        = 0x1f // initial value of wrong, as if the last five predictions had been wrong
	doubted         = 0x03 // initial value of useless
	maxUseless      = 7    // with more useless predictions, they are disabled for a while
	maxWrong        = 3    // with more wrong predictions, or a wrong one among the last three, no prediction is sure
	checkEvery      = 5    // if predictions are sure, every fifth frame gets an additional poll at the earlier bound
	minDisable      = time.Second
	maxDisable      = time.Minute
)

// found records that the poll at now found frame seq, and that the poll at before had not found it. It returns the prediction of the
// next put.
func (p *phase) found(seq uint64, before, now time.Duration) expected {
	seen := putTime{seq, before, now}
	switch n := int64(seq - p.seq); {
	case p.late == 0 || n <= 0 || now-p.late > 4*maxPeriod:
		*p = phase{anchor: seen, disabledUntil: p.disabledUntil, disabledFor: p.disabledFor, wrong: unproved, useless: doubted}
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
	p.expected = p.predict(now)
	return p.expected
}

// begin measures the first period, once there are enough frames.
func (p *phase) begin(seen putTime) {
	if seen.seq-p.anchor.seq >= minFrames {
		p.measure(seen)
	}
}

// measure computes the period and its error from the put p.anchor and the put b. Jitter of the two puts makes the result wrong, but
// less so the more frames are between them. So each time their number has doubled, measure takes the new result even if its error
// is larger.
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
	off := max(middle-seen.late, seen.early-middle, 0) // least deviation of the put from its predicted time
	p.jitter += (min(off, maxJitter) - p.jitter) / 8
	switch p.early, p.late = max(early, seen.early), min(late, seen.late); {
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

// recordResult records whether the prediction for the put seen was wrong, and whether it was useless: wrong, and the
// polls around the put were more than usefulPrecision apart. After too many useless predictions it disables predictions for a while.
func (p *phase) recordResult(seen putTime) {
	e := p.expected
	if e.at == 0 {
		return
	}
	wrong := seen.seq != p.seq+1 || seen.late < min(e.at, e.from+minPause) || seen.early > e.to+maxMargin
	p.wrong, p.useless = p.wrong<<1, p.useless<<1
	if wrong {
		p.wrong |= 1
	}
	if wrong && (seen.seq != p.seq+1 || seen.late-seen.early > usefulPrecision) {
		p.useless |= 1
	}
	switch count := bits.OnesCount16(p.useless); {
	case count == 0:
		p.disabledFor = 0
	case count > maxUseless:
		p.disabledFor = min(max(2*p.disabledFor, minDisable), maxDisable)
		p.disabledUntil, p.wrong, p.useless = seen.late+p.disabledFor, unproved, doubted
		p.period, p.anchor = 0, seen // measure the period again while predictions are disabled
	}
}

// predict returns the prediction of the next put, or the zero value if there is none.
func (p *phase) predict(now time.Duration) expected {
	if p.period < minPeriod || p.period > maxPeriod || now < p.disabledUntil {
		return expected{}
	}
	margin := min(minMargin+2*p.jitter, maxJitter) + p.periodError
	from, to := p.early+p.period-margin, p.late+p.period+margin
	at := to
	if to-from > narrow {
		at = from + (to-from)/2
	}
	if at <= now {
		return expected{}
	}
	e := expected{first: at, at: at, from: from, to: to}
	e.sure = to-from <= wide && p.wrong&0b111 == 0 && bits.OnesCount16(p.wrong) <= maxWrong
	switch {
	case !e.sure:
		e.first = at - approach
	case p.seq%checkEvery == 0:
		e.first = from
	}
	return e
}
