package localach

import (
	"math/bits"
	"time"
)

// phase predicts when a channel's next frame is put, from looks at it alone: a look that found frames, and the one before
// that had not, bound the time of the put from both sides. The bounds are carried on by the period from beat to beat,
// widened by what the period and the puts themselves are uncertain, and cut by what is seen there. Times count from the
// watcher's start.
type phase struct {
	seq          uint64
	early, late  time.Duration // between which frame seq was put; late is 0: no frame seen yet
	period, loss time.Duration // between frames, and what it may be wrong by; period is 0: unknown
	jitter       time.Duration // how far puts are off the beat, on average
	anchor       beat          // from which the period is measured
	window       window        // of the frame to come
	missed       uint16        // of the latest windows, a bit each
	barred       time.Duration // no window until then
	bar          time.Duration // for how long it was barred last
}

// beat is a put of the past.
type beat struct {
	seq         uint64
	early, late time.Duration
}

// window is when to look without pause for the next frame; its ends are the same for a single look, and 0 if the next
// frame cannot be predicted.
type window struct {
	from, to time.Duration
	sure     bool // few were missed lately: there is no need to look before
}

const (
	longestWindow = 100 * time.Microsecond // without pause
	leastMargin   = 8 * time.Microsecond   // on both sides of where the put is expected
	mostMargin    = 40 * time.Microsecond
	firstBeats    = 8   // frames until the period is believed
	longestSpan   = 256 // frames over which the period is measured: clocks drift
	fastestBeat   = 2 * pollFastest
	slowestBeat   = time.Second
	unproved      = 0x1f // as if so many windows had been missed
	mostMissed    = 6    // of those, or there are none for a while
	mostUnsure    = 1    // of those, or ticks go on before the window
	leastBar      = time.Second
	longestBar    = time.Minute
)

// found takes a look at now that saw seq, after one at before that had not. It returns the window of the frame to come.
func (p *phase) found(seq uint64, before, now time.Duration) window {
	seen := beat{seq, before, now}
	switch n := int64(seq - p.seq); {
	case p.late == 0 || n <= 0 || now-p.late > 4*slowestBeat:
		*p = phase{anchor: seen, barred: p.barred, bar: p.bar, missed: unproved}
	case p.period == 0:
		p.begin(seen)
	default:
		if p.judge(seen, n == 1); p.period != 0 {
			p.follow(seen, time.Duration(n))
		}
	}
	if p.seq = seq; p.late == 0 || p.period == 0 {
		p.early, p.late = before, now
	}
	p.window = p.next(now)
	return p.window
}

// begin measures the first period, once there are frames enough.
func (p *phase) begin(seen beat) {
	if seen.seq-p.anchor.seq >= firstBeats {
		p.measure(seen)
	}
}

// measure bounds the period by two puts that are bounded themselves.
func (p *phase) measure(b beat) {
	n := time.Duration(b.seq - p.anchor.seq)
	least, most := (b.early-p.anchor.late)/n, (b.late-p.anchor.early)/n
	if loss := (most - least) / 2; p.period == 0 || loss <= p.loss {
		p.period, p.loss = (least+most)/2, loss
	}
}

// follow brings the bounds to frame seen, n frames on.
func (p *phase) follow(seen beat, n time.Duration) {
	doubt := n*p.loss + p.jitter/2
	early, late := p.early+n*p.period-doubt, p.late+n*p.period+doubt
	middle := early + (late-early)/2
	if seen.late-seen.early <= leastMargin { // seen while it was put
		off := seen.late - middle
		p.jitter += (min(max(off, -off), longestWindow) - p.jitter) / 8
		p.early, p.late = seen.early-off/2, seen.late-off/2 // half of that is the put's own
	} else {
		p.early, p.late = max(early, seen.early), min(late, seen.late)
	}
	switch {
	case p.early < p.late:
	case seen.late <= early: // the frame was there first
		p.early, p.late = max(seen.early, seen.late-mostMargin), seen.late
	default:
		p.early, p.late = seen.early, min(seen.late, seen.early+mostMargin)
	}
	now := beat{seen.seq, p.early, p.late}
	p.measure(now)
	if now.seq-p.anchor.seq >= longestSpan {
		p.anchor, p.loss = now, max(p.loss, p.period/10_000)
	}
}

// judge counts windows in which the frame was not put. One that was there at the first look of a window that began late is
// no miss: we were.
func (p *phase) judge(seen beat, next bool) {
	w := p.window
	if w.to == w.from {
		return
	}
	missed := !next || seen.early >= w.to || seen.early < w.from && seen.late <= w.from+leastMargin
	p.missed <<= 1
	if missed { // of the latest 16
		p.missed |= 1
	}
	if bits.OnesCount16(p.missed) > mostMissed {
		p.bar = min(max(2*p.bar, leastBar), longestBar)
		p.barred, p.missed = seen.late+p.bar, unproved
		p.period, p.anchor = 0, seen // it is learnt anew meanwhile
	}
}

// next is where to look for the next frame.
func (p *phase) next(now time.Duration) window {
	if p.period < fastestBeat || p.period > slowestBeat || now < p.barred {
		return window{}
	}
	margin := min(leastMargin+2*p.jitter, mostMargin) + p.loss
	from, to := p.early+p.period-margin, p.late+p.period+margin
	if to-from > longestWindow {
		from += (to - from) / 2 // one look in the middle halves the doubt
		to = from
	}
	if from <= now {
		return window{}
	}
	return window{from, to, bits.OnesCount16(p.missed) <= mostUnsure}
}
