package localach

import (
	"cmp"
	"runtime"
	"slices"
	"time"
)

// DefaultWatchBudget is the default share of one CPU for busy polling.
const DefaultWatchBudget = 0.05

// busyPoll is the state that the windows of all channels share: their budget, how late a sleep ends, and whether other
// programs need the CPU.
type busyPoll struct {
	budget        float64       // share of a CPU; 0 means no windows
	disabledUntil time.Duration // there are no windows until this time
	delay         runDelay
	idle          idleTime

	wakeAt       time.Duration // when the loop must wake for a window, or 0
	wakeDelay    time.Duration // mean delay of waking
	pollingSince time.Duration // when the current busy polling began, or 0
	spent        time.Duration // total time of busy polling
	meanPoll     time.Duration // mean length of one busy polling
}

const (
	wakeCost      = 15 * time.Microsecond  // CPU time of waking for a window
	maxWakeDelay  = 100 * time.Microsecond // limit of wakeDelay
	recheckBefore = 3 * reviewEvery        // how long before the end of minDisable the load is checked again
)

// SetBudget sets the share of one CPU that the loop may use for busy polling before expected frames, in addition to its
// ordinary polls. The default is 0.05. 0 disables busy polling. The loop polls so only while no thread of the process waits for
// a CPU and other processes leave one of its CPUs free. It never does on a machine with one CPU, or if the kernel does not
// report the load (/proc/self/task/*/schedstat, /proc/stat).
func (w *Watcher) SetBudget(share float64) {
	if runtime.GOMAXPROCS(0) < 2 || runtime.NumCPU() < 2 {
		share = 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busyPoll.budget = share
}

// BusyPolling is the budget and the cost of busy polling.
type BusyPolling struct {
	Budget  float64       // share of one CPU; 0 means that busy polling is disabled
	Spent   time.Duration // total time of busy polling
	Resting bool          // paused for a second, since other programs need the CPU
}

// BusyPolling returns the budget and the cost of the loop's busy polling. It does not block.
func (w *Watcher) BusyPolling() BusyPolling {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := &w.busyPoll
	return BusyPolling{Budget: f.budget, Spent: f.spent, Resting: f.budget > 0 && f.isDisabled(time.Since(w.start))}
}

// isContended reports whether other programs need the CPU, or whether the kernel does not report it.
func (f *busyPoll) isContended(now time.Duration) bool {
	waited, scarce := f.delay.isHigh(now), f.idle.scarce(now)
	return waited || scarce
}

func (f *busyPoll) isDisabled(now time.Duration) bool { return now < f.disabledUntil }

// recordWake records how late the loop woke for a window.
func (f *busyPoll) recordWake(now time.Duration) {
	if f.wakeAt != 0 {
		f.wakeDelay += (min(max(now-f.wakeAt, 0), maxWakeDelay) - f.wakeDelay) / 8
		f.wakeAt, f.pollingSince = 0, now
	}
}

// sleep returns how long the loop may sleep to be awake at next. pollNow means that there is no time to sleep.
func (f *busyPoll) sleep(now, next time.Duration, aimed bool) (left time.Duration, pollNow bool) {
	left = next - now
	if aimed {
		if left -= f.wakeDelay; left <= 0 {
			if f.pollingSince == 0 {
				f.pollingSince = now
			}
			return 0, true
		}
		f.wakeAt = now + left
	}
	if f.pollingSince != 0 {
		f.spent += now - f.pollingSince
		f.meanPoll += (min(now-f.pollingSince, maxWindow) - f.meanPoll) / 32
		f.pollingSince = 0
	}
	return left, false
}

// planWindows gives windows to the channels whose windows cost least, within the budget. These are the slow channels, whose
// new frames ordinary polls find latest.
func (w *Watcher) planWindows(now time.Duration) {
	f := &w.busyPoll
	type candidate struct {
		notice *Notice
		slot   *slot
		cost   float64
	}
	var list []candidate
	for i, n := range w.notices {
		if n != nil && n.phase.period != 0 {
			list = append(list, candidate{n, &w.slots[i], f.windowCost(n.phase.period)})
		}
	}
	if len(list) > 0 && f.budget > 0 && now >= f.disabledUntil-recheckBefore && f.isContended(now) {
		f.disabledUntil = now + minDisable
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.cost, b.cost) })
	left := f.budget
	for _, c := range list {
		left -= c.cost
		c.notice.planned = left >= 0
		if !c.notice.planned || f.isDisabled(now) {
			c.slot.window = window{}
		}
	}
}

// windowCost returns the share of one CPU that the windows of a channel with that period use.
func (f *busyPoll) windowCost(period time.Duration) float64 {
	return (wakeCost + f.meanPoll).Seconds() / period.Seconds()
}
