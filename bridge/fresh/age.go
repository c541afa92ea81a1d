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
	known  bool          // whether born is
	born   time.Duration // when the newest frame was captured
	from   time.Duration // what lies before is counted
	budget time.Duration

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

// AgeWindow is the time that the sliding window covers at least; at most it is a
// slot longer.
const AgeWindow = 10 * time.Second

const (
	ageSlot  = time.Second
	ageSlots = int(AgeWindow/ageSlot) + 1
)

// Put takes a frame that is put at now and was captured at born. Ages above budget
// count as over it from now on. It allocates nothing once it has seen the like.
func (a *Ages) Put(now, born, budget time.Duration) {
	a.begin(now)
	a.fill(now)
	a.born, a.from, a.budget, a.known = min(born, now), now, budget, true
}

// Lapse takes a frame whose capture time nobody knows. The time until the next one
// is not counted, unless Learn tells meanwhile.
func (a *Ages) Lapse(now, budget time.Duration) {
	a.begin(now)
	a.fill(now)
	a.from, a.budget, a.known = now, budget, false
}

// Learn tells when the frame that Lapse took was captured; false means that it was
// known, or that there is none.
func (a *Ages) Learn(born time.Duration) bool {
	if a.slots[0] == nil || a.known {
		return false
	}
	a.from = max(a.from, a.begun)
	a.born, a.known = min(born, a.from), true
	return true
}

// Now is the age at now; ok is false while nobody knows.
func (a *Ages) Now(now time.Duration) (age time.Duration, ok bool) {
	return max(0, now-a.born), a.known
}

// Window tells of the last AgeWindow before now, or of all the time if that is less.
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

// Total tells of all the time until now, and how much of it the age was at most
// each of AgeBounds.
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

// Lately tells of the time since it was called last, but for the quantiles, and is
// quick.
func (a *Ages) Lately(now time.Duration) AgeStat {
	a.fill(now)
	s := a.lately.stat(nil)
	a.lately = sawtooth{}
	return s
}

// Watch begins a window of its own at now, which End ends.
func (a *Ages) Watch(now time.Duration) *AgeWatch {
	a.fill(now)
	w := &AgeWatch{}
	a.watched = append(a.watched, &w.ages)
	return w
}

// AgeWatch is a window that somebody has begun.
type AgeWatch struct{ ages sawtooth }

// End tells of the time from the Watch to now, and forgets it.
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
		if gone := now - at - AgeWindow; gone > ageSlot {
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
	a.slots[0].add(low, high, a.budget)
	a.lately.add(low, high, a.budget)
	if a.present.count(low, high) {
		a.counted = true
	} else {
		a.slots[0].count(low, high)
	}
	for _, s := range a.watched {
		s.add(low, high, a.budget)
		s.count(low, high)
	}
	a.from = to
}
