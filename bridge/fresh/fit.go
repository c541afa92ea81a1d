package fresh

import "time"

// Fit decides how often large frames of one subscription leave, so that each that leaves
// arrives whole within its budget. It goes by what became of the frames that left, and by
// nothing else. While they arrive in time it changes nothing; the zero value has no limit.
//
// A frame came too late: frames leave further apart, at least so far that one has arrived
// before the next leaves. Frames arrive in time: they leave closer together, step by step,
// down to the time that one takes. The limit ends when a frame would arrive in time even
// after it has waited for a whole period of its publisher.
//
// While there is a limit, a frame whose age and usual time on the way are more than its
// budget gives way to the next one, which is younger when it leaves.
type Fit struct {
	interval time.Duration // between two that leave; 0: no limit
	busy     time.Duration // from taking a frame until it was known to have arrived
	way      time.Duration // from taking a frame until it had arrived
	size     int           // bytes of the frame that those are of
	rate     float64       // bytes a second that arrived of the frame that left last
	whole    int           // frames in time since the last step
	tight    bool          // frames come too late without stronger compression
	calm     int           // frames in time on end
	trial    int           // so many of them end tight
	guessed  bool          // what a frame takes is a guess from one that was given up
}

// Try is a frame that has left, in whole or in part, when it is known what became of it.
type Try struct {
	Left     time.Duration // when it was taken out of its channel
	Known    time.Duration // when it was known to have arrived, or was given up
	Arrived  time.Duration // when it had arrived; 0: it was given up
	Captured time.Duration
	Budget   time.Duration
	Period   time.Duration // between two frames of the publisher; 0: not known
	Size     int           // bytes of the frame
	Carried  int           // bytes of it that are known to have arrived
}

const (
	fitGrowth  = 1.25 // after a frame too late the time between two is so many times as long
	fitShrink  = 0.9  // and so many times after fitWhole in time
	fitWhole   = 4
	fitFar     = 2    // while it is more than so many times what a frame takes ...
	fitFall    = 0.7  // ... it is so many times as long after each in time
	fitMost    = 3    // times the longer of budget and period is the most that it may be, or what a frame takes
	fitSpare   = 0.9  // part of its budget within which a frame must arrive for the limit to end
	fitForget  = 4    // what a frame takes falls by this part of the difference with each that takes less
	fitCarried = 0.25 // part of a frame that must have arrived to tell how long all of it takes
	fitTrial   = 32   // frames in time after which it is tried to go without stronger compression ...
	fitTrials  = 1024 // ... and at most, when that has failed time and again
	fitYoung   = 32   // a frame younger than this part of its budget is as young as any will be
)

// inTime reports whether the frame arrived within its budget.
func (t Try) inTime() bool { return t.Arrived != 0 && t.Arrived-t.Captured <= t.Budget }

// Note takes what became of a frame.
func (f *Fit) Note(t Try) {
	if t.Carried <= 0 || t.Known <= t.Left {
		return // the path was silent: it does not matter how often frames leave
	}
	guessed := f.guessed
	f.measure(t)
	f.tighten(t.inTime())
	switch {
	case !t.inTime():
		f.whole = 0
		most := max(fitMost*max(t.Budget, t.Period), f.busy)
		f.interval = min(max(f.busy, time.Duration(fitGrowth*float64(f.interval))), most)
	case guessed:
		f.interval = min(f.interval, fitFar*f.busy)
	default:
		f.closer(t)
	}
}

// measure learns how long frames take. Of one that was given up only a part has arrived:
// the rest counts as slow as that.
func (f *Fit) measure(t Try) {
	busy, way := t.Known-t.Left, t.Arrived-t.Left
	f.rate = float64(t.Carried) / busy.Seconds()
	if t.Arrived != 0 {
		f.rate = float64(t.Size) / max(way, time.Microsecond).Seconds()
	} else {
		part := max(fitCarried, min(1, float64(t.Carried)/float64(t.Size)))
		busy = time.Duration(float64(busy) / part)
		way = busy
	}
	f.busy, f.way, f.size = f.scaled(f.busy, t.Size), f.scaled(f.way, t.Size), t.Size
	if f.guessed {
		f.busy, f.way = busy, way
	}
	f.guessed = t.Arrived == 0
	f.busy = max(busy, f.busy-(f.busy-busy)/fitForget)
	f.way = max(way, f.way-(f.way-way)/fitForget)
}

// scaled is what a frame of size bytes takes where one of f.size takes so long.
func (f *Fit) scaled(took time.Duration, size int) time.Duration {
	if f.size == 0 {
		return took
	}
	return time.Duration(float64(took) * float64(size) / float64(f.size))
}

// closer has frames leave closer together after one that was in time.
func (f *Fit) closer(t Try) {
	f.whole++
	step := fitShrink
	switch {
	case f.interval == 0:
		return
	case f.interval > fitFar*f.busy:
		step = fitFall
	case f.whole < fitWhole:
		return
	}
	f.whole = 0
	f.interval = max(f.busy, time.Duration(step*float64(f.interval)))
	spare := time.Duration(fitSpare * float64(t.Budget))
	if f.interval <= max(f.busy, t.Period) && (f.way+t.Period <= spare || f.interval <= t.Period && f.way <= spare) && t.Period != 0 {
		f.interval = 0
	}
}

// tighten decides whether frames need stronger compression: from one that was too late
// until many on end were in time. If the next ones are too late without it, many more must
// be before it is left out again.
func (f *Fit) tighten(inTime bool) {
	switch {
	case !inTime && !f.tight:
		f.tight, f.trial = true, min(max(fitTrial, 2*f.trial), fitTrials)
		f.calm = 0
	case !inTime:
		f.calm = 0
	default:
		f.calm++
	}
	if f.calm < f.trial || f.calm == 0 {
		return
	}
	if !f.tight {
		f.trial = 0
	}
	f.tight, f.calm = false, 0
}

// Tight reports that frames come too late, or would without stronger compression.
func (f *Fit) Tight() bool { return f.tight }

// Interval is the time between two frames that leave; 0: there is no limit.
func (f *Fit) Interval() time.Duration { return f.interval }

// Waits reports whether a frame of that age gives way to the next one, because it would
// arrive past its budget. One that is as young as any does not; nor does one that nothing
// follows: it is older than two periods.
func (f *Fit) Waits(age, budget, period time.Duration) bool {
	if f.interval == 0 || age <= max(budget/fitYoung, period/fitYoung) {
		return false
	}
	return age+f.way > budget && age < Patience(budget, period)
}

// Patience is the age from which on a frame gives way to none.
func Patience(budget, period time.Duration) time.Duration { return min(2*period, budget) }

// Takes is how long a frame takes from taking it until it has arrived, 0 when it is
// not known, and Rate how many bytes a second of the last one arrived meanwhile.
func (f *Fit) Takes() time.Duration { return f.way }

// Rate is the measured rate, see Takes; 0: not known.
func (f *Fit) Rate() float64 { return f.rate }
