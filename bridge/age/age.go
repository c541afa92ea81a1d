package age

import "time"

// History records the age of a mirror's newest frame since its first frame: the age of information (Kaul, Yates,
// Gruteser 2012). The age falls when a frame is put, and otherwise grows with time. Since it is a straight line
// between two puts, its mean and the time above a budget are exact integrals, without samples. The zero value is
// ready to use.
//
// All times are of the same clock, which the caller chooses. A frame with a capture time after its put counts as captured
// when it was put.
type History struct {
	isBornKnown bool          // whether born is known
	born        time.Duration // capture time of the newest frame
	from        time.Duration // ages before this time are counted already
	most        time.Duration // ages above this count as over

	slotBeganAt time.Duration       // when the current slot began
	slots       [ageSlots]*sawtooth // newest first, beginning with the current one; nil before the first frame
	present     counter             // lines of the current slot that are not in slots[0] yet
	counted     bool                // whether present has lines
	past        sawtooth            // sum of all slots before the current one
	last        window              // sums of the other slots of the sliding window
	sum         sawtooth            // result of sumOf, kept to reuse its memory
	watched     []*sawtooth
	lately      sawtooth // ages since the last call of Lately, without counts
}

// ageWindow is the minimum length of the sliding window, which may be one slot longer.
const ageWindow = 10 * time.Second

const (
	ageSlot  = time.Second
	ageSlots = int(ageWindow/ageSlot) + 1
)

// Put records a frame that is put at now and was captured at born. From now on it counts
// ages above most as over. In steady state it allocates nothing.
func (a *History) Put(now, born, most time.Duration) {
	a.begin(now)
	a.fill(now)
	a.born, a.from, a.most, a.isBornKnown = min(born, now), now, most, true
}

// Lapse records a frame whose capture time is unknown. The time until the next frame is
// not counted, unless Learn supplies the capture time in between.
func (a *History) Lapse(now, most time.Duration) {
	a.begin(now)
	a.fill(now)
	a.from, a.most, a.isBornKnown = now, most, false
}

// Limit counts ages above most as over from now on, without a new frame.
func (a *History) Limit(now, most time.Duration) {
	a.fill(now)
	a.most = most
}

// Learn supplies the capture time of the frame that Lapse recorded. It returns false if that time was known
// already, or if there is no such frame.
func (a *History) Learn(born time.Duration) bool {
	if a.slots[0] == nil || a.isBornKnown {
		return false
	}
	a.from = max(a.from, a.slotBeganAt)
	a.born, a.isBornKnown = min(born, a.from), true
	return true
}

// Born returns when the newest frame was captured; ok is false while that is unknown.
func (a *History) Born() (at time.Duration, ok bool) { return a.born, a.isBornKnown }

// Now returns the age at now; ok is false while it is unknown.
func (a *History) Now(now time.Duration) (age time.Duration, ok bool) {
	return max(0, now-a.born), a.isBornKnown
}

// Window returns the ages of the last ageWindow before now, or since the first frame if that is later.
func (a *History) Window(now time.Duration) Stat {
	if a.slots[0] == nil {
		return Stat{}
	}
	a.fill(now)
	a.settle()
	older, newer := a.last.of(a.slots[1:])
	sum := a.sumOf(older, newer, a.slots[0])
	return sum.stat(sum.bands())
}

// Total returns the ages from the first frame to now, and the time at ages of at most each of Bounds.
func (a *History) Total(now time.Duration) (Stat, [len(Bounds)]time.Duration) {
	if a.slots[0] == nil {
		return Stat{}, [len(Bounds)]time.Duration{}
	}
	a.fill(now)
	a.settle()
	sum := a.sumOf(&a.past, a.slots[0])
	bands := sum.bands()
	return sum.stat(bands), sum.under(bands)
}

// sumOf returns the sum of list, which is valid until the next call.
func (a *History) sumOf(list ...*sawtooth) *sawtooth {
	a.sum.reset()
	for _, s := range list {
		a.sum.merge(s)
	}
	return &a.sum
}

// window sums up the latest completed slots, without adding all of them each time another slot is complete. It
// stores sums of the slots before a base time, and one sum of the slots since.
type window struct {
	upTo           [ageSlots]sawtooth // sums of the newest n slots at the base time; created when needed
	completedSlots int                // number of slots completed since
	since          sawtooth           // sum of the first added slots of these
	added          int
	isBornKnown    bool
}

// of returns two sums that together are the sum of slots. The newest slot is the first.
func (w *window) of(slots []*sawtooth) (older, newer *sawtooth) {
	if !w.isBornKnown || w.completedSlots >= len(slots) {
		for i, s := range slots {
			w.upTo[i+1].reset()
			w.upTo[i+1].merge(&w.upTo[i])
			w.upTo[i+1].merge(s)
		}
		w.since.reset()
		w.completedSlots, w.added, w.isBornKnown = 0, 0, true
	}
	for ; w.added < w.completedSlots; w.added++ {
		w.since.merge(slots[w.completedSlots-w.added-1])
	}
	return &w.upTo[len(slots)-w.completedSlots], &w.since
}

// Lately returns the ages since its last call, without the quantiles. It is cheap.
func (a *History) Lately(now time.Duration) Stat {
	a.fill(now)
	s := a.lately.stat(nil)
	a.lately = sawtooth{}
	return s
}

// Watch starts a separate window at now, which End ends.
func (a *History) Watch(now time.Duration) *Watch {
	a.fill(now)
	w := &Watch{}
	a.watched = append(a.watched, &w.ages)
	return w
}

// Watch is a window started by History.Watch.
type Watch struct{ ages sawtooth }

// End returns the ages from the Watch to now, and ends the window.
func (a *History) End(w *Watch, now time.Duration) Stat {
	a.fill(now)
	for i, s := range a.watched {
		if s == &w.ages {
			a.watched = append(a.watched[:i:i], a.watched[i+1:]...)
			break
		}
	}
	return w.ages.stat(w.ages.bands())
}

func (a *History) begin(now time.Duration) {
	if a.slots[0] != nil {
		return
	}
	a.slotBeganAt, a.present = now, newCounter()
	for i := range a.slots {
		a.slots[i] = &sawtooth{}
	}
}

// fill counts the time up to now, each slot's part in that slot. After a long silence it skips slots that are
// older than the window.
func (a *History) fill(now time.Duration) {
	if a.slots[0] == nil {
		return
	}
	for now-a.slotBeganAt >= ageSlot {
		at := a.slotBeganAt + ageSlot
		if gone := now - at - ageWindow; gone > ageSlot {
			at += gone / ageSlot * ageSlot
		}
		a.line(at)
		a.settle()
		a.past.merge(a.slots[0])
		oldest := a.slots[ageSlots-1]
		copy(a.slots[1:], a.slots[:])
		oldest.reset()
		a.slots[0], a.slotBeganAt = oldest, at
		a.last.completedSlots++
	}
	a.line(now)
}

// settle moves the counts in present into the present slot.
func (a *History) settle() {
	if a.counted {
		a.present.moveTo(a.slots[0])
		a.counted = false
	}
}

// line counts the straight line of the age from a.from to a time.
func (a *History) line(to time.Duration) {
	if !a.isBornKnown || to <= a.from {
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
