package ring

import (
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/lock"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// Source watches local channels for new frames.
type Source interface {
	// NewData calls f soon after every put into ch, until stop is called. f must not block.
	NewData(ch *localach.Channel, f func(seq uint64)) (stop func())
}

// Clock is the node's clock. Both functions may be called from any goroutine.
type Clock struct {
	Now      func() time.Duration // time since the node's start
	LastPoll func() time.Duration // when the source last polled the channels, by the same clock
}

// Arrivals records which frames the source has noticed in one channel, and when. A frame that arrives before the slot that
// max_rate allows is passed over. Safe for concurrent use.
type Arrivals struct {
	ch    *localach.Channel
	clock Clock

	mu      lock.Mutex[lock.Arrivals] // guards what follows
	wake    func()                    // wakes the sender of the channel; nil before Watch
	stop    func()                    // nil before Watch and after Stop
	newest  Arrival
	command bool   // the channel carries commands, so a frame noticed late counts as put at the earliest possible time
	isWoken bool   // the wake function was called since the last Collect
	passed  uint64 // number of the newest frame that arrived before the slot
	pace    ledger.Pace
	log     []noticed // the latest frames, after LogAll (mode every); else nil
	logged  int       // number of entries ever added to log
}

// Arrival is the newest frame of a channel.
type Arrival struct {
	Seq            uint64        // last_seq as the source saw it
	CapturedAt     time.Duration // when the source saw it; 0 means before the channel was watched
	SlotAt         time.Duration // when the next frame may be sent
	NextCapturedAt time.Duration // capture time of a frame that is newer than Seq; set by the caller
}

// noticed records that frame seq was the newest when the source polled the channel at time at.
type noticed struct {
	seq uint64
	at  time.Duration
}

const maxLogged = 4096

// NewArrivals returns the Arrivals of a channel. Its newest frame at this time has no capture time.
func NewArrivals(ch *localach.Channel, clock Clock) *Arrivals {
	return &Arrivals{ch: ch, clock: clock, newest: Arrival{Seq: ch.LastSeq()}}
}

// LogAll records the capture times of the latest frames for CapturedAt, not only that of the newest. Call it before Watch.
func (a *Arrivals) LogAll() { a.log = make([]noticed, min(a.ch.Geometry().FrameCount, maxLogged)) }

// Watch begins to watch the channel. The given function wakes the sender: it is called after the first frame that arrives
// after a Collect. It must not block.
func (a *Arrivals) Watch(source Source, wake func()) {
	a.mu.Lock()
	a.wake = wake
	a.mu.Unlock()
	stop := source.NewData(a.ch, func(seq uint64) { a.take(seq, true) })
	a.mu.Lock()
	a.stop = stop
	a.mu.Unlock()
	a.take(a.ch.LastSeq(), false) // a frame that was put after NewArrivals and before the source watched
}

// Stop stops watching the channel. One more call of the wake function may follow.
func (a *Arrivals) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
}

// Wake calls the wake function as after a new frame, unless it was called since the last Collect.
func (a *Arrivals) Wake() {
	a.mu.Lock()
	wake := a.wake
	if a.isWoken {
		wake = nil
	}
	a.isWoken = a.isWoken || wake != nil
	a.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// UnseenSince returns the earliest time at which a frame that the source has not noticed yet may have been put. That is now,
// unless the daemon was stopped or got no CPU. Then it is the time when the source last polled the channels.
func (c Clock) UnseenSince(now time.Duration) time.Duration {
	if at := c.LastPoll(); now-at > standstill {
		return max(at, 1)
	}
	return now
}

// standstill is the time without a poll from which the daemon counts as stopped or without CPU. It is ten times the watcher's
// longest period.
const standstill = 20 * time.Millisecond

// take records frame seq and calls the wake function. byWatcher means that the source calls it. Only the source may report a
// number below the newest one, when the channel was created again.
func (a *Arrivals) take(seq uint64, byWatcher bool) {
	now := a.clock.Now()
	since := a.clock.UnseenSince(now)
	a.mu.Lock()
	if seq == a.newest.Seq || seq < a.newest.Seq && !byWatcher {
		a.mu.Unlock()
		return
	}
	a.newest.Seq, a.newest.CapturedAt = seq, now
	if a.command {
		a.newest.CapturedAt = since
	}
	a.pace.Add(seq, a.newest.CapturedAt)
	if a.log != nil {
		a.log[a.logged%len(a.log)] = noticed{seq, now}
		a.logged++
	}
	if now < a.newest.SlotAt {
		a.passed = seq
	}
	first, wake := !a.isWoken, a.wake
	a.isWoken = true
	a.mu.Unlock()
	if first {
		wake()
	}
}

// CapturedAt returns the capture time of frame seq after LogAll, or 0 if the frame was put before the channel was watched or
// too long ago.
func (a *Arrivals) CapturedAt(seq uint64) (at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for back := 1; back <= min(a.logged, len(a.log)); back++ {
		s := a.log[(a.logged-back)%len(a.log)]
		if s.seq < seq {
			return at
		}
		at = s.at
	}
	if a.logged > len(a.log) || a.logged == 0 {
		return 0
	}
	return at
}

// Newest returns the newest frame.
func (a *Arrivals) Newest() Arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.newest
}

// Collect returns the newest frame. The wake function will be called after the next one.
func (a *Arrivals) Collect() Arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isWoken = false
	return a.newest
}

// UseSlot uses the current slot. It returns when the next slot begins, after interval, and the number of the newest frame that
// was passed over before the current slot. An interval of 0 means no limit.
func (a *Arrivals) UseSlot(now, interval time.Duration) (slotAt time.Duration, passed uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := &a.newest.SlotAt
	switch {
	case interval == 0:
		*at = 0
	case now-*at < interval:
		*at += interval
	default:
		*at = now + interval
	}
	return *at, a.passed
}

// SetInterval moves the next slot so that it begins no later than one interval from now. It returns the newest frame.
func (a *Arrivals) SetInterval(now, interval time.Duration) Arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.newest.SlotAt = min(a.newest.SlotAt, now+interval)
	return a.newest
}

// SetCommand sets whether the channel carries commands.
func (a *Arrivals) SetCommand(command bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.command = command
}

// Due returns the age of the newest frame, the time between two frames for the peer, and how long the next frame has been due.
// All are in ms, and nil means unknown. interval is the minimum time that the origin leaves between two frames.
func (a *Arrivals) Due(now, interval time.Duration) (age, period, due *float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.newest.CapturedAt != 0 {
		v := status.Ms(max(0, now-a.newest.CapturedAt))
		age = &v
	}
	every, known := a.pace.Period(interval)
	period, due = status.Due(age, every, known)
	return age, period, due
}

// Period returns the time between two puts, or 0 if it is unknown.
func (a *Arrivals) Period() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	period, known := a.pace.Cadence.Period()
	if !known {
		return 0
	}
	return period
}

// PassedOver returns the number of the newest frame that arrived before the slot.
func (a *Arrivals) PassedOver() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.passed
}
