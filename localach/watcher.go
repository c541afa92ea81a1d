package localach

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A Watcher notices new frames in any number of channels: one loop polls their last_seq. It never touches a channel's lock or
// condition variable, so that it cannot harm the channel's users, even if it is killed or they use another C library.
//
// A channel is polled about four times per interval between its frames, at most every 200 µs and at least every 2 ms. That is
// the delay until wake is called. If the frames are periodic, the loop learns the period and polls without pause, for at most
// 100 µs, when it expects the next frame (see SetBudget). While no channel is watched, the loop sleeps.
type Watcher struct {
	timer *timer
	start time.Time // the loop counts from here

	lastPoll atomic.Int64 // as Looked, in ns since start

	mu      sync.Mutex
	slots   []slot    // parallel to notices
	notices []*Notice // nil: an empty slot
	free    []int
	changed []int         // of the last look
	tick    time.Duration // period of the looks at channels without a window; 0: there are none
	ticks   time.Duration // time of the next of these looks
	review  time.Duration // when to lengthen the periods of silent channels

	busyPoll busyPoll
}

// A Notice is the registration that a call of Watch makes; Close ends it.
type Notice struct {
	watcher *Watcher
	channel *Channel
	wake    func(seq uint64)
	slot    int // -1: closed; guarded by watcher.mu
	pace    pace
	phase   phase
	planned bool // the budget has room for its windows
}

// NewWatcher makes a Watcher; it works while Run runs.
func NewWatcher() (*Watcher, error) {
	t, err := newTimer()
	if err != nil {
		return nil, fmt.Errorf("watcher: %w", err)
	}
	w := &Watcher{timer: t, start: time.Now(), busyPoll: busyPoll{meanPoll: maxWindow / 4}}
	if err := unix.SchedGetaffinity(0, &w.busyPoll.idle.cpus); err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	w.busyPoll.idle.ownTime = ownTime
	w.SetBudget(DefaultWatchBudget)
	return w, nil
}

// Run is the loop. It returns ctx.Err() once ctx is done. Run it once: the Watcher is of no use afterwards.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.timer.close()
	stop := context.AfterFunc(ctx, w.timer.interrupt)
	defer stop()
	var wakes []wake
	for {
		if err := w.timer.wait(); err != nil {
			if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
				return ctx.Err()
			}
			return fmt.Errorf("watcher: %w", err)
		}
		for again := true; again; {
			var looked time.Duration
			wakes, looked, again = w.poll(wakes[:0])
			for _, k := range wakes {
				k.call(k.seq)
			}
			w.lastPoll.Store(int64(looked))
		}
	}
}

type wake struct {
	call func(seq uint64)
	seq  uint64
}

// Looked returns the earliest time at which a frame may have been put whose wake was not called yet, except that the frame may
// be up to 2 ms older. While a channel is watched, that is long ago only if the whole process was stopped. It never blocks.
func (w *Watcher) Looked() time.Time { return w.start.Add(time.Duration(w.lastPoll.Load())) }

// Watch makes the loop call wake with the newest sequence number whenever c's last_seq has changed since the last look. The
// first look is now. The number goes back if the channel was initialised again. If the memory is gone because the file was
// truncated, wake is called a last time. wake must not block. The channel's mapping stays until the Notice is closed, even if
// c is closed before. If c is closed already, wake is never called.
func (w *Watcher) Watch(c *Channel, wake func(seq uint64)) *Notice {
	n := &Notice{watcher: w, channel: c, wake: wake, slot: -1}
	base, ok := c.retain()
	if !ok {
		return n
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := w.idle()
	if len(w.free) == 0 {
		w.free = append(w.free, len(w.slots))
		w.slots = append(w.slots, slot{})
		w.notices = append(w.notices, nil)
	}
	n.slot = w.free[len(w.free)-1]
	w.free = w.free[:len(w.free)-1]
	w.notices[n.slot] = n
	now, seq := time.Since(w.start), c.LastSeq()
	if idle {
		w.lastPoll.Store(int64(now)) // no channel was watched until now
	}
	n.pace = newPace(seq, now)
	w.slots[n.slot] = slot{lastSeq: lastSeqIn(base), lastSeen: seq, due: now, polledAt: now, period: n.pace.period}
	w.rearm()
	return n
}

// Close ends the registration. One more call of wake may follow. Closing twice is harmless.
func (n *Notice) Close() {
	w := n.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.slot < 0 {
		return
	}
	w.notices[n.slot] = nil
	w.slots[n.slot] = slot{}
	w.free = append(w.free, n.slot)
	n.slot = -1
	n.channel.release()
	w.rearm()
}

// poll polls the channels that are due and appends the calls of wake that follow. again means that the next look is too soon
// to sleep; otherwise poll has set the timer to it.
func (w *Watcher) poll(wakes []wake) (called []wake, now time.Duration, pollNow bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = time.Since(w.start) // before any look, since the process may be stopped between looks
	w.busyPoll.recordWake(now)
	slack := time.Duration(-1)
	if w.tick != 0 && now >= w.ticks {
		slack = w.tick / 2
		w.ticks += (now-w.ticks)/w.tick*w.tick + w.tick
	}
	w.changed = pollSlots(w.slots, now, slack, w.changed[:0])
	for _, i := range w.changed {
		n, s := w.notices[i], &w.slots[i]
		if s.wentBack { // when Check comes, as many frames may be there as before
			_ = n.channel.fail(statusReinit)
		}
		n.pace.observe(s.lastSeen, now)
		s.period, s.window = n.pace.period, n.phase.found(s.lastSeen, s.prevPolledAt, now)
		if !n.planned || w.busyPoll.isDisabled(now) {
			s.window = window{}
		}
		s.due = s.nextPoll(now)
		wakes = append(wakes, wake{n.wake, s.lastSeen})
	}
	due := now >= w.review
	if due {
		w.review = now + reviewEvery
		w.slowDown(now)
		w.planWindows(now)
	}
	if due || len(w.changed) > 0 {
		w.retick()
	}
	return wakes, now, w.arm(now)
}

// slowDown lengthens the periods of silent channels.
func (w *Watcher) slowDown(now time.Duration) {
	for i, n := range w.notices {
		if n != nil && n.pace.silent(now) {
			w.slots[i].period = n.pace.period
		}
	}
}

// rearm wakes the loop, which then computes its next look again.
func (w *Watcher) rearm() {
	w.retick()
	if w.idle() {
		w.timer.set(0)
	} else {
		w.timer.set(1)
	}
}

// idle reports whether nothing is watched.
func (w *Watcher) idle() bool { return len(w.free) == len(w.slots) }

// retick sets the ticks to the smallest period of all channels without a window. Channels with longer periods are polled on
// the ticks that fit these best.
func (w *Watcher) retick() {
	var tick time.Duration
	for i := range w.slots {
		if s := &w.slots[i]; s.lastSeq != nil && !s.hasWindow() && (tick == 0 || s.period < tick) {
			tick = s.period
		}
	}
	if tick == w.tick {
		return
	}
	w.tick = tick
	w.ticks = time.Since(w.start) + tick
}

// arm sets the timer to the next look. It returns true if that look is too soon to sleep.
func (w *Watcher) arm(now time.Duration) (pollNow bool) {
	next := time.Duration(0)
	if w.tick != 0 {
		next = w.ticks
	}
	aimed := false
	for i := range w.slots {
		if s := &w.slots[i]; s.lastSeq != nil && s.hasWindow() && (next == 0 || s.due < next) {
			next, aimed = s.due, true
		}
	}
	if next == 0 {
		w.timer.set(0)
		return false
	}
	sleep, pollNow := w.busyPoll.sleep(now, next, aimed)
	if !pollNow {
		w.timer.set(max(sleep, 1))
	}
	return pollNow
}
