package localach

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A Watcher notices new frames in any number of channels. One loop polls their last_seq. It never touches a channel's lock or
// condition variable, so it cannot harm the channel's users, even if it is killed or they use another C library.
//
// A channel is polled about four times per interval between its frames, at most every 200 µs and at least every 2 ms, which is
// the delay until wake is called. If frames are periodic, the loop measures the period and polls when the next put is expected
// instead, but still every 2 ms. While no channel is watched, the loop sleeps.
type Watcher struct {
	timer *timer
	start time.Time // time zero of the loop

	lastPoll atomic.Int64 // result of Looked, in ns since start

	mu      sync.Mutex
	slots   []slot    // parallel to notices
	notices []*Notice // nil for an empty slot
	free    []int
	changed []int         // slots that changed in the last poll
	tick    time.Duration // polling period of the channels without a predicted put, or 0 if there are none
	ticks   time.Duration // time of the next of these polls
	review  time.Duration // when to increase the periods of silent channels
}

// A Notice is a registration that Watch returns. Close ends it.
type Notice struct {
	watcher *Watcher
	channel *Channel
	wake    func(seq uint64)
	slot    int // -1 after Close; guarded by watcher.mu
	pace    pace
	phase   phase
}

// NewWatcher returns a Watcher, which works while Run runs.
func NewWatcher() (*Watcher, error) {
	t, err := newTimer()
	if err != nil {
		return nil, fmt.Errorf("watcher: %w", err)
	}
	return &Watcher{timer: t, start: time.Now()}, nil
}

// Run runs the loop until ctx is done and returns ctx.Err(). Call it once. The Watcher cannot be used afterwards.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.timer.close()
	stop := context.AfterFunc(ctx, w.timer.interrupt)
	defer stop()
	arm := w.arm
	var wakes []wake
	for {
		if err := w.timer.wait(arm); err != nil {
			if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
				return ctx.Err()
			}
			return fmt.Errorf("watcher: %w", err)
		}
		var lastPoll time.Duration
		wakes, lastPoll = w.poll(wakes[:0])
		for _, k := range wakes {
			k.call(k.seq)
		}
		w.lastPoll.Store(int64(lastPoll))
	}
}

type wake struct {
	call func(seq uint64)
	seq  uint64
}

// LastPoll returns a time for which all frames that were put more than 2 ms before have been noticed: their wake was called. While
// a channel is watched, that time is long ago only if the whole process was stopped. Looked never blocks.
func (w *Watcher) LastPoll() time.Time { return w.start.Add(time.Duration(w.lastPoll.Load())) }

// Watch makes the loop call wake with the newest sequence number each time c's last_seq has changed since the last poll, from
// now on. The number decreases if the channel was initialised again. If the memory is gone because the file was truncated, wake
// is called a last time. wake must not block. The channel's mapping stays until the Notice is closed, even if c is closed
// before. If c is closed already, wake is never called.
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
		w.lastPoll.Store(int64(now)) // no other channel was watched
	}
	n.pace = newPace(seq, now)
	w.slots[n.slot] = slot{lastSeq: lastSeqIn(base), lastSeen: seq, due: now, polledAt: now, period: n.pace.period}
	w.rearm()
	return n
}

// Close ends the registration. One more call of wake may follow. Close may be called again.
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

// poll polls the channels that are due. It returns the calls of wake that the caller must make, appended to wakes.
func (w *Watcher) poll(wakes []wake) (called []wake, now time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = time.Since(w.start) // read before the polls, since the process may be stopped between them
	slack := time.Duration(-1)
	if w.tick != 0 && now >= w.ticks {
		slack = w.tick / 2
		w.ticks += (now-w.ticks)/w.tick*w.tick + w.tick
	}
	w.changed = pollSlots(w.slots, now, slack, w.changed[:0])
	for _, i := range w.changed {
		n, s := w.notices[i], &w.slots[i]
		if s.wentBack { // the channel was initialised again; Check would miss that once it has as many frames again
			_ = n.channel.fail(statusReinit)
		}
		n.pace.observe(s.lastSeen, now)
		s.period, s.expected = n.pace.period, n.phase.found(s.lastSeen, s.prevPolledAt, now)
		s.due = s.nextPoll(now)
		wakes = append(wakes, wake{n.wake, s.lastSeen})
	}
	due := now >= w.review
	if due {
		w.review = now + reviewEvery
		w.slowDown(now)
	}
	if due || len(w.changed) > 0 {
		w.retick()
	}
	return wakes, now
}

// slowDown increases the periods of silent channels.
func (w *Watcher) slowDown(now time.Duration) {
	for i, n := range w.notices {
		if n != nil && n.pace.silent(now) {
			w.slots[i].period = n.pace.period
		}
	}
}

// rearm wakes the loop, which then computes its next poll again.
func (w *Watcher) rearm() {
	w.retick()
	if w.idle() {
		w.timer.set(0)
	} else {
		w.timer.set(1)
	}
}

// idle reports whether no channel is watched.
func (w *Watcher) idle() bool { return len(w.free) == len(w.slots) }

// retick sets the tick to the smallest period of all channels without a predicted put. Channels with longer periods are polled at the
// ticks nearest to their times.
func (w *Watcher) retick() {
	var tick time.Duration
	for i := range w.slots {
		if s := &w.slots[i]; s.lastSeq != nil && !s.isExpected() && (tick == 0 || s.period < tick) {
			tick = s.period
		}
	}
	if tick == w.tick {
		return
	}
	w.tick = tick
	w.ticks = time.Since(w.start) + tick
}

// arm sets the timer for the next poll.
func (w *Watcher) arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := time.Duration(0)
	if w.tick != 0 {
		next = w.ticks
	}
	for i := range w.slots {
		if s := &w.slots[i]; s.lastSeq != nil && s.isExpected() && (next == 0 || s.due < next) {
			next = s.due
		}
	}
	if next == 0 {
		w.timer.set(0)
	} else {
		w.timer.set(max(next-time.Since(w.start), 1))
	}
}
