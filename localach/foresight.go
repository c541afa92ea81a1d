package localach

import (
	"cmp"
	"runtime"
	"slices"
	"time"
)

// DefaultWatchBudget is the share of a processor that looking without pause may take.
const DefaultWatchBudget = 0.05

// foresight is what the windows of all channels share: what they may cost, how late a sleep ends, and whether somebody else
// wants the processor.
type foresight struct {
	budget  float64       // share of a processor; 0: no windows
	blindTo time.Duration // no windows until then
	delay   runDelay

	asked time.Duration // when the loop wanted to wake for a window; 0: it did not
	late  time.Duration // how much later it wakes, on average
	since time.Duration // when it began to look without pause; 0: it does not
	spent time.Duration // without pause, in all
}

const (
	wakeCost = 15 * time.Microsecond  // of processor, to wake for a window
	mostLate = 100 * time.Microsecond // that is allowed for
	spared   = time.Second            // for so long there are no windows after the kernel let us wait
)

// SetBudget sets which share of a processor the loop may spend on looking without pause for frames that it expects, beyond
// what its ordinary looks take: 0.05, unless it is called; 0 for none. It looks without pause only while no thread of the
// process waits for a processor, and not at all where the kernel does not tell (/proc/self/task/*/schedstat), or with one
// processor.
func (w *Watcher) SetBudget(share float64) {
	if runtime.GOMAXPROCS(0) < 2 || runtime.NumCPU() < 2 {
		share = 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.foresight.budget = share
}

// Spent returns how long the loop has looked without pause, in all.
func (w *Watcher) Spent() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.foresight.spent
}

func (f *foresight) blind(now time.Duration) bool { return now < f.blindTo }

// woke notes that the loop is awake.
func (f *foresight) woke(now time.Duration) {
	if f.asked != 0 {
		f.late += (min(max(now-f.asked, 0), mostLate) - f.late) / 8
		f.asked, f.since = 0, now
	}
}

// sleep returns for how long the loop may sleep so that it is awake at next; again says that it is no time to sleep.
func (f *foresight) sleep(now, next time.Duration, aimed bool) (left time.Duration, again bool) {
	left = next - now
	if aimed {
		if left -= f.late; left <= 0 {
			if f.since == 0 {
				f.since = now
			}
			return 0, true
		}
		f.asked = now + left
	}
	if f.since != 0 {
		f.spent += now - f.since
		f.since = 0
	}
	return left, false
}

// plan gives windows to those channels whose windows cost least, as far as the budget goes: they are the slow ones, which ticks
// find latest.
func (w *Watcher) plan(now time.Duration) {
	f := &w.foresight
	type candidate struct {
		notice *Notice
		slot   *slot
		cost   float64
	}
	var list []candidate
	for i, n := range w.notices {
		if n != nil && n.phase.period != 0 {
			list = append(list, candidate{n, &w.slots[i], n.phase.cost()})
		}
	}
	if len(list) > 0 && f.budget > 0 && f.delay.grew(now) {
		f.blindTo = now + spared
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.cost, b.cost) })
	left := f.budget
	for _, c := range list {
		left -= c.cost
		c.notice.planned = left >= 0
		if !c.notice.planned || f.blind(now) {
			c.slot.window = window{}
		}
	}
}

// cost is which share of a processor its windows take.
func (p *phase) cost() float64 {
	return (wakeCost + longestWindow/4).Seconds() / p.period.Seconds()
}
