package localach

import (
	"cmp"
	"runtime"
	"slices"
	"time"
)

// DefaultWatchBudget is the share of one processor that polling without pause may take.
const DefaultWatchBudget = 0.05

// busyPoll is the state that the windows of all channels share: their budget, how late a sleep ends, and whether others
// want the processor.
type busyPoll struct {
	budget        float64       // share of a processor; 0: no windows
	disabledUntil time.Duration // until this time there are no windows
	delay         runDelay
	idle          idleTime

	wakeAt       time.Duration // when the loop wants to wake for a window; 0: it does not
	wakeDelay    time.Duration // how much later the loop wakes, on average
	pollingSince time.Duration // when the loop began to poll without pause; 0: it does not poll so now
	spent        time.Duration // total time of polling without pause
	meanPoll     time.Duration // how long it takes each time, on average
}

const (
	wakeCost      = 15 * time.Microsecond  // processor time to wake for a window
	maxWakeDelay  = 100 * time.Microsecond // limit of late
	disableTime   = time.Second            // how long there are no windows after others wanted the processor
	recheckBefore = 3 * reviewEvery        // how long before the end of that time it looks whether they still do
)

// SetBudget sets the share of one processor that the loop may use for polling without pause when it expects a frame, in
// addition to its ordinary looks. The default is 0.05; 0 switches it off. The loop polls without pause only while no thread
// of the process waits for a processor, and other processes leave it one of those that it may use. It never does on a machine
// with one processor, or if the kernel does not show that (/proc/self/task/*/schedstat, /proc/stat).
func (w *Watcher) SetBudget(share float64) {
	if runtime.GOMAXPROCS(0) < 2 || runtime.NumCPU() < 2 {
		share = 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busyPoll.budget = share
}

// BusyPolling says what polling without pause for expected frames may cost, and what it has cost.
type BusyPolling struct {
	Budget  float64       // share of one processor; 0: the loop never polls without pause
	Spent   time.Duration // total time of polling without pause
	Resting bool          // the loop does not poll so for a second: others want its processor
}

// BusyPolling returns what the loop spends on polling without pause. It does not block.
func (w *Watcher) BusyPolling() BusyPolling {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := &w.busyPoll
	return BusyPolling{Budget: f.budget, Spent: f.spent, Resting: f.budget > 0 && f.isDisabled(time.Since(w.start))}
}

// isContended reports whether others want the processor, as far as the kernel tells.
func (f *busyPoll) isContended(now time.Duration) bool {
	waited, scarce := f.delay.isHigh(now), f.idle.scarce(now)
	return waited || scarce
}

func (f *busyPoll) isDisabled(now time.Duration) bool { return now < f.disabledUntil }

// recordWake records how late the loop has woken for a window.
func (f *busyPoll) recordWake(now time.Duration) {
	if f.wakeAt != 0 {
		f.wakeDelay += (min(max(now-f.wakeAt, 0), maxWakeDelay) - f.wakeDelay) / 8
		f.wakeAt, f.pollingSince = 0, now
	}
}

// sleep returns how long the loop may sleep so that it is awake at next. again means that there is no time to sleep.
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

// planWindows gives windows to the channels whose windows cost least, as far as the budget allows. These are the slow channels, of
// which ordinary looks find new frames latest.
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
		f.disabledUntil = now + disableTime
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

// windowCost is the share of one processor that the windows of a channel with that period take.
func (f *busyPoll) windowCost(period time.Duration) float64 {
	return (wakeCost + f.meanPoll).Seconds() / period.Seconds()
}
