package fresh

import "time"

// Ages keeps how old the newest frame of a mirror was, over all the time since the
// first: the age of information (Kaul, Yates, Gruteser 2012), which falls when a
// frame is put and else grows as time passes. Between two puts it is a straight
// line, so that its mean and the time above a budget are integrals without an
// error, and nothing has to sample it. The zero value is ready.
//
// Times count as those of now; a frame that was captured later than it was put is
// taken as captured then.
type Ages struct {
	known bool          // whether born is
	born  time.Duration // when the newest frame was captured
	from  time.Duration // what lies before is counted
	most  time.Duration // the age above which it is over

	begun   time.Duration       // of the present slot
	slots   [ageSlots]*sawtooth // nil before the first frame; the present one is the first
	present counter             // what is not in the present slot yet
	counted bool                // whether that is anything
	past    sawtooth            // all slots before the present one
	last    window              // the slots of the window before the present one
	sum     sawtooth            // what is told of, to use its memory again
	watched []*sawtooth
	lately  sawtooth // since the last call of Lately; without counts
}

// ageWindow is the time that the sliding window covers at least; at most it is a
// slot longer.
const ageWindow = 10 * time.Second

const (
	ageSlot  = time.Second
	ageSlots = int(ageWindow/ageSlot) + 1
)

// Put records a frame that is put at now and was captured at born. From now on it counts
// ages above most as over. In steady state it allocates nothing.
func (a *Ages) Put(now, born, most time.Duration) {
	a.begin(now)
	a.fill(now)
	a.born, a.from, a.most, a.known = min(born, now), now, most, true
}

// Lapse records a frame whose capture time is unknown. The time until the next frame is
// not counted, unless Learn supplies the capture time in between.
func (a *Ages) Lapse(now, most time.Duration) {
	a.begin(now)
	a.fill(now)
	a.from, a.most, a.known = now, most, false
}

// Limit counts ages above most as over from now on, without a new frame.
func (a *Ages) Limit(now, most time.Duration) {
	a.fill(now)
	a.most = most
}

// Learn supplies the capture time of the frame that Lapse recorded. It reports false
// when that time was known already, or when there is no such frame.
func (a *Ages) Learn(born time.Duration) bool {
	if a.slots[0] == nil || a.known {
		return false
	}
	a.from = max(a.from, a.begun)
	a.born, a.known = min(born, a.from), true
	return true
}

// Now returns the age at now; ok is false while it is unknown.
func (a *Ages) Now(now time.Duration) (age time.Duration, ok bool) {
	return max(0, now-a.born), a.known
}

// Window returns the ages over the last ageWindow before now, or over all the time if
// that is shorter.
func (a *Ages) Window(now time.Duration) AgeStat {
	if a.slots[0] == nil {
		return AgeStat{}
	}
	a.fill(now)
	a.settle()
	older, newer := a.last.of(a.slots[1:])
	sum := a.sumOf(older, newer, a.slots[0])
	return sum.stat(sum.bands())
}

// Total returns the ages over all the time until now, and for how long the age was at
// most each of AgeBounds.
func (a *Ages) Total(now time.Duration) (AgeStat, [len(AgeBounds)]time.Duration) {
	if a.slots[0] == nil {
		return AgeStat{}, [len(AgeBounds)]time.Duration{}
	}
	a.fill(now)
	a.settle()
	sum := a.sumOf(&a.past, a.slots[0])
	bands := sum.bands()
	return sum.stat(bands), sum.under(bands)
}

// sumOf is good until it is called again.
func (a *Ages) sumOf(list ...*sawtooth) *sawtooth {
	a.sum.reset()
	for _, s := range list {
		a.sum.merge(s)
	}
	return &a.sum
}

// window sums up the latest slots that have ended, without adding up all of them each
// time one more has: sums of those before some moment, and one of those since.
type window struct {
	upTo  [ageSlots]sawtooth // the newest n slots of that moment; made when they are asked for
	ended int                // slots since
	since sawtooth           // the sum of the first added of them
	added int
	known bool
}

// of returns two sums that make up that of all slots, the newest of which is first.
func (w *window) of(slots []*sawtooth) (older, newer *sawtooth) {
	if !w.known || w.ended >= len(slots) {
		for i, s := range slots {
			w.upTo[i+1].reset()
			w.upTo[i+1].merge(&w.upTo[i])
			w.upTo[i+1].merge(s)
		}
		w.since.reset()
		w.ended, w.added, w.known = 0, 0, true
	}
	for ; w.added < w.ended; w.added++ {
		w.since.merge(slots[w.ended-w.added-1])
	}
	return &w.upTo[len(slots)-w.ended], &w.since
}

// Lately returns the ages since its last call, without the quantiles. It is cheap.
func (a *Ages) Lately(now time.Duration) AgeStat {
	a.fill(now)
	s := a.lately.stat(nil)
	a.lately = sawtooth{}
	return s
}

// Watch begins a window of its own at now; End ends it.
func (a *Ages) Watch(now time.Duration) *AgeWatch {
	a.fill(now)
	w := &AgeWatch{}
	a.watched = append(a.watched, &w.ages)
	return w
}

// AgeWatch is a window that Watch has begun.
type AgeWatch struct{ ages sawtooth }

// End returns the ages from the Watch to now, and ends the window.
func (a *Ages) End(w *AgeWatch, now time.Duration) AgeStat {
	a.fill(now)
	for i, s := range a.watched {
		if s == &w.ages {
			a.watched = append(a.watched[:i:i], a.watched[i+1:]...)
			break
		}
	}
	return w.ages.stat(w.ages.bands())
}

func (a *Ages) begin(now time.Duration) {
	if a.slots[0] != nil {
		return
	}
	a.begun, a.present = now, newCounter()
	for i := range a.slots {
		a.slots[i] = &sawtooth{}
	}
}

// fill counts the time up to now, each slot's in its slot. Of a long silence the
// slots are left out that nobody can ask for any more.
func (a *Ages) fill(now time.Duration) {
	if a.slots[0] == nil {
		return
	}
	for now-a.begun >= ageSlot {
		at := a.begun + ageSlot
		if gone := now - at - ageWindow; gone > ageSlot {
			at += gone / ageSlot * ageSlot
		}
		a.line(at)
		a.settle()
		a.past.merge(a.slots[0])
		oldest := a.slots[ageSlots-1]
		copy(a.slots[1:], a.slots[:])
		oldest.reset()
		a.slots[0], a.begun = oldest, at
		a.last.ended++
	}
	a.line(now)
}

// settle has the counts of the present slot in it.
func (a *Ages) settle() {
	if a.counted {
		a.present.moveTo(a.slots[0])
		a.counted = false
	}
}

// line counts the straight line from what is counted to a time.
func (a *Ages) line(to time.Duration) {
	if !a.known || to <= a.from {
		return
	}
	low, high := a.from-a.born, to-a.born
	a.slots[0].add(low, high, a.most)
	a.lately.add(low, high, a.most)
	if a.present.count(low, high) {
		a.counted = true
	} else {
		a.slots[0].count(low, high)
	}
	for _, s := range a.watched {
		s.add(low, high, a.most)
		s.count(low, high)
	}
	a.from = to
}
