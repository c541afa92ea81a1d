package mirror

import (
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/phases"
	"achbridge/bridge/status"
	"achbridge/bridge/unit"
)

// vigil notices that a mirror gets no frame in time for its deadline, and that it gets
// one again. It is under the mirror's mu; judge runs in a goroutine of its own, so that
// the deadline of one mirror does not wait for what the node does for others.
type vigil struct {
	wake   chan struct{} // there is something to judge
	done   chan struct{} // closed when the mirror is; nil: nobody watches yet
	last   time.Duration // when a frame was put in time last; before the first, when the mirror was made
	phase  timeliness
	toldAt time.Duration // that it is stale or fresh, or how often it missed its deadline
	event  uint64        // the event that tells of missed deadlines; 0: none since it was told stale
	misses int           // that event's count
	ended  time.Duration // when it began to recover last
	calm   time.Duration // for how long it must be fresh to be told so
	lapses int           // times it became stale since toldAt
	armed  bool          // the newest frame of the file is, for all we know, a command
	safe   uint64        // safe frames put
}

// timeliness is whether frames come in time for the deadline, and what the events have of that.
type timeliness int

const (
	timely     timeliness = iota
	missed                // no frame came in time, and no event says so yet
	stale                 // no frame comes in time
	recovering            // frames come in time again; the events still have the mirror as stale
)

var timelinessTransitions = phases.Transitions[timeliness]{
	timely:     {missed},
	missed:     {stale},
	stale:      {recovering},
	recovering: {stale, timely},
}

const (
	leastCalm  = time.Second      // for so long a mirror must be fresh to be told so, and twice
	mostCalm   = time.Minute      // as long each time it was stale again within mostCalm, up to that
	countEvery = 10 * time.Second // meanwhile the deadlines that it misses are counted so often
	longWait   = time.Hour
	safeAgain  = 100 * time.Millisecond // a safe frame that could not be put is tried again
	lastTrials = 20                     // of the safe frame, when its mirror ends
)

// watchDeadline has the deadline of m.qos watched from now on.
func (m *Mirror) watchDeadline() {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := &m.vigil
	if m.qos.Deadline == 0 {
		v.refresh(m.Clock.now())
	}
	switch {
	case v.done != nil:
		wakeUp(v.wake)
		return
	case m.qos.Deadline == 0:
		return
	}
	if v.last == 0 {
		v.last = m.Clock.now()
	}
	wake, done := make(chan struct{}, 1), make(chan struct{})
	v.wake, v.done = wake, done
	m.Spawn(func() {
		t := time.NewTimer(0)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-wake:
			case <-done:
				return
			}
			t.Reset(m.judge(m.Clock.now()))
		}
	})
}

// judge looks whether the mirror is stale, and returns when to look again.
func (m *Mirror) judge(now time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := &m.vigil
	left := longWait
	if d := m.qos.Deadline; d != 0 {
		left = v.last + d - now
	}
	switch {
	case left > 0:
		v.refresh(now)
	case !v.isStale():
		v.miss()
	}
	if v.isStale() {
		left = m.putSafe()
	}
	m.tell()
	return min(left, m.tellStale(now))
}

// fed notes that a frame was put: one that is late ends no silence. Needs m.mu.
func (m *Mirror) fed(inTime bool) {
	v := &m.vigil
	v.armed = true
	if !inTime {
		return
	}
	v.last = m.Clock.now()
	if v.isStale() {
		v.refresh(v.last)
		wakeUp(v.wake)
	}
}

func (v *vigil) isStale() bool { return v.phase == missed || v.phase == stale }

// miss notes that no frame came in time.
func (v *vigil) miss() {
	v.lapses++
	next := missed
	if v.phase == recovering {
		next = stale
	}
	timelinessTransitions.Move(&v.phase, next)
}

// refresh notes that it is not stale at now.
func (v *vigil) refresh(now time.Duration) {
	if v.isStale() {
		timelinessTransitions.Move(&v.phase, recovering)
		v.ended = now
	}
}

// tellStale tells what changed, and returns when there may be more to tell. A mirror
// that goes to and fro is stale until it has been fresh for a while. Needs m.mu.
func (m *Mirror) tellStale(now time.Duration) time.Duration {
	v := &m.vigil
	switch v.phase {
	case timely:
		return longWait
	case missed:
		if v.calm *= 2; v.toldAt == 0 || now-v.toldAt > mostCalm {
			v.calm = leastCalm
		}
		v.calm = min(v.calm, mostCalm)
		m.Events.Tell(slog.LevelWarn, "mirror stale", m.event(status.EventMirrorStale, m.staleText(now)), "deadline", m.qos.Deadline, "on_stale", m.qos.OnStale.String())
		timelinessTransitions.Move(&v.phase, stale)
		v.toldAt, v.lapses, v.event, v.misses = now, 0, 0, 0
		return longWait
	}
	fresh := v.ended + v.calm - now
	if v.phase == stale {
		fresh = longWait
	}
	misses := v.toldAt + countEvery - now
	if v.lapses == 0 {
		misses = longWait
	}
	if v.lapses > 0 && (fresh <= 0 || misses <= 0) {
		m.tellMisses()
		v.toldAt, v.lapses, misses = now, 0, longWait
	}
	if fresh <= 0 {
		text := fmt.Sprintf("frames have come in time for %s", unit.Time((now - v.ended).Round(10*time.Millisecond)))
		if v.event != 0 {
			text += fmt.Sprintf(", after %d missed deadlines", 1+v.misses)
			m.Events.Ended(v.event, now-v.ended)
		}
		m.Events.Tell(slog.LevelInfo, "mirror fresh", m.event(status.EventMirrorFresh, text))
		timelinessTransitions.Move(&v.phase, timely)
		v.toldAt = now
		return longWait
	}
	return min(fresh, misses)
}

// tellMisses tells how often the deadline was missed since the mirror was told stale: in one
// event, which grows. Needs m.mu.
func (m *Mirror) tellMisses() {
	v := &m.vigil
	v.misses += v.lapses
	text := fmt.Sprintf("no frame within its deadline of %s, %d more times", unit.Time(m.qos.Deadline), v.misses)
	if v.event != 0 {
		m.Events.GoesOn(v.event, status.EventDeadlineMissed, v.lapses, text)
		return
	}
	e := m.event(status.EventDeadlineMissed, text)
	e.Count = v.misses
	v.event = m.Events.Tell(slog.LevelWarn, "deadline missed", e, "deadline", m.qos.Deadline, "count", v.misses)
}

// owesSafe reports whether the safe frame is to follow the last command. Needs m.mu.
func (m *Mirror) owesSafe() bool { return m.qos.OnStale.File != "" && m.vigil.armed }

// putSafe puts the safe frame, once after the last command, and returns when to try
// again. Needs m.mu.
func (m *Mirror) putSafe() time.Duration {
	if !m.owesSafe() {
		return longWait
	}
	if m.file.w == nil {
		return safeAgain // its file is in trouble, which the node tells and heals
	}
	switch err := m.tryPut(m.file.tag.Seq, []byte(m.qos.OnStale.Frame)); {
	case isBusy(err):
		return busyRetry
	case err != nil:
		m.failed("safe frame cannot be put", err)
		return safeAgain
	}
	m.vigil.armed, m.frames.capturedAt = false, 0
	m.vigil.safe++
	m.tellSafe(m.Clock.now())
	return longWait
}

// endsSafe reports whether the newest frame of the file is the safe frame: it needs no
// other. Needs m.mu.
func (m *Mirror) endsSafe() bool {
	r := m.file.ch.Reader()
	frame := make([]byte, len(m.qos.OnStale.Frame)+1)
	n, err := r.TryNext(frame)
	return err == nil && string(frame[:n]) == m.qos.OnStale.Frame
}

// putLast puts what is still owed when the mirror ends, since nobody will later. It
// reports whether the lock was taken, and is to be tried again.
func (m *Mirror) putLast() (busy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	transitions.Move(&m.health.phase, closed)
	m.frames.pending.seq = 0
	return m.file.w != nil && m.putSafe() == busyRetry
}

// endVigil needs m.mu.
func (m *Mirror) endVigil() {
	if m.vigil.done != nil {
		close(m.vigil.done)
		m.vigil.done = nil
		if m.vigil.phase != timely && m.vigil.event != 0 {
			m.Events.Ended(m.vigil.event, 0)
		}
	}
}

// staleText says what a stale mirror lacks. Needs m.mu.
func (m *Mirror) staleText(now time.Duration) string {
	what := "no frame"
	if m.frames.lateness.frames > 0 {
		what = "no frame in time"
	}
	text := fmt.Sprintf("%s for %s, its deadline is %s", what, unit.Time((now - m.vigil.last).Round(10*time.Millisecond)), unit.Time(m.qos.Deadline))
	if m.qos.OnStale.File != "" && !m.vigil.armed && m.vigil.safe > 0 {
		text += "; the safe frame was put"
	}
	return text
}

// wakeUp wakes whoever waits on c, or the next one who will.
func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
