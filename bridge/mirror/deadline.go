package mirror

import (
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/operator"
	"achbridge/bridge/phases"
	"achbridge/bridge/status"
	"achbridge/bridge/unit"
)

// deadlineMonitor monitors the mirror's deadline: it detects that no frame arrived in time, and that frames arrive in time
// again. It is guarded by the mirror's mu. Each mirror has its own goroutine, which calls judge, so that the
// node's work on other mirrors does not delay a deadline.
type deadlineMonitor struct {
	wake            chan struct{} // makes the goroutine call judge
	done            chan struct{} // closed when the mirror closes; nil if the goroutine does not run
	last            time.Duration // when a frame was last put in time; until the first one, when the watch began
	phase           timeliness
	reportedAt      time.Duration // when the last event about staleness or missed deadlines was logged
	event           uint64        // number of the event for missed deadlines; 0 if there is none since the mirror went stale
	misses          int           // count of that event, see event
	recoveryBeganAt time.Duration // when the last recovery began
	calm            time.Duration // how long frames must arrive in time before the mirror is reported fresh
	lapses          int           // number of times that it became stale since reportedAt
	armed           bool          // the newest frame of the file may be a command, not the safe frame
	safe            uint64        // safe frames put
}

// timeliness is the phase of a mirror regarding its deadline. It combines whether frames arrive in time and
// which event was last logged.
type timeliness int

const (
	timely     timeliness = iota
	missed                // no frame arrived in time; the event is not logged yet
	stale                 // no frame arrives in time; the event is logged
	recovering            // frames arrive in time again; the mirror is not yet reported fresh
)

var timelinessTransitions = phases.Transitions[timeliness]{
	timely:     {missed},
	missed:     {stale},
	stale:      {recovering},
	recovering: {stale, timely},
}

const (
	leastCalm  = time.Second      // initial value of calm
	mostCalm   = time.Minute      // limit of calm, which doubles each time the mirror goes stale within mostCalm of the last event
	countEvery = 10 * time.Second // interval of counting missed deadlines while the mirror alternates between stale and fresh
	longWait   = time.Hour
	safeAgain  = 100 * time.Millisecond // interval of retries of a safe frame that could not be put
	lastTrials = 20                     // retries of the safe frame while the mirror closes
)

// watchDeadline starts or updates the monitoring of the deadline in m.qos.
func (m *Mirror) watchDeadline() {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := &m.deadlineMonitor
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

// judge checks whether the mirror is stale, and returns the time until the next check.
func (m *Mirror) judge(now time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := &m.deadlineMonitor
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
	m.writeMetadata()
	return min(left, m.reportStale(now))
}

// fed records that a frame was put. Only a frame in time ends staleness. m.mu must be held.
func (m *Mirror) fed(inTime bool) {
	v := &m.deadlineMonitor
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

func (v *deadlineMonitor) isStale() bool { return v.phase == missed || v.phase == stale }

// miss records that no frame arrived in time.
func (v *deadlineMonitor) miss() {
	v.lapses++
	next := missed
	if v.phase == recovering {
		next = stale
	}
	timelinessTransitions.Move(&v.phase, next)
}

// refresh records that the mirror is not stale at now.
func (v *deadlineMonitor) refresh(now time.Duration) {
	if v.isStale() {
		timelinessTransitions.Move(&v.phase, recovering)
		v.recoveryBeganAt = now
	}
}

// reportStale logs changes of staleness as events, and returns the time until the next event may be due. A mirror
// that alternates remains stale until it has been fresh long enough. m.mu must be held.
func (m *Mirror) reportStale(now time.Duration) time.Duration {
	v := &m.deadlineMonitor
	switch v.phase {
	case timely:
		return longWait
	case missed:
		if v.calm *= 2; v.reportedAt == 0 || now-v.reportedAt > mostCalm {
			v.calm = leastCalm
		}
		v.calm = min(v.calm, mostCalm)
		m.Events.Record(slog.LevelWarn, "mirror stale", m.event(status.EventMirrorStale, m.staleText(now)), "deadline", m.qos.Deadline, "on_stale", m.qos.OnStale.String())
		timelinessTransitions.Move(&v.phase, stale)
		v.reportedAt, v.lapses, v.event, v.misses = now, 0, 0, 0
		return longWait
	}
	fresh := v.recoveryBeganAt + v.calm - now
	if v.phase == stale {
		fresh = longWait
	}
	misses := v.reportedAt + countEvery - now
	if v.lapses == 0 {
		misses = longWait
	}
	if v.lapses > 0 && (fresh <= 0 || misses <= 0) {
		m.reportMisses()
		v.reportedAt, v.lapses, misses = now, 0, longWait
	}
	if fresh <= 0 {
		text := fmt.Sprintf("frames have come in time for %s", unit.Time((now - v.recoveryBeganAt).Round(10*time.Millisecond)))
		if v.event != 0 {
			text += fmt.Sprintf(", after %d missed deadlines", 1+v.misses)
			m.Events.Ended(v.event, now-v.recoveryBeganAt)
		}
		m.Events.Record(slog.LevelInfo, "mirror fresh", m.event(status.EventMirrorFresh, text))
		timelinessTransitions.Move(&v.phase, timely)
		v.reportedAt = now
		return longWait
	}
	return min(fresh, misses)
}

// reportMisses logs the number of missed deadlines since the mirror went stale. It extends one event instead of
// logging several. m.mu must be held.
func (m *Mirror) reportMisses() {
	v := &m.deadlineMonitor
	v.misses += v.lapses
	text := fmt.Sprintf("no frame within its deadline of %s, %d more times", unit.Time(m.qos.Deadline), v.misses)
	if v.event != 0 {
		m.Events.GoesOn(v.event, status.EventDeadlineMissed, v.lapses, text)
		return
	}
	e := m.event(status.EventDeadlineMissed, text)
	e.Count = v.misses
	v.event = m.Events.Record(slog.LevelWarn, "deadline missed", e, "deadline", m.qos.Deadline, "count", v.misses)
}

// safeFramePending reports whether the safe frame must still be put after the last command. m.mu must be held.
func (m *Mirror) safeFramePending() bool { return m.qos.OnStale.File != "" && m.deadlineMonitor.armed }

// putSafe puts the safe frame once after the last command, and returns the time until the next try. m.mu must be
// held.
func (m *Mirror) putSafe() time.Duration {
	if !m.safeFramePending() {
		return longWait
	}
	if m.file.w == nil {
		return safeAgain // the file is not usable; the node logs and repairs that
	}
	switch err := m.tryPut(m.file.tag.Seq, []byte(m.qos.OnStale.Frame)); {
	case IsBusy(err):
		return busyRetry
	case err != nil:
		m.failed("safe frame cannot be put", err)
		return safeAgain
	}
	m.deadlineMonitor.armed, m.frames.capturedAt, m.frames.grant = false, 0, operator.Grant{}
	m.deadlineMonitor.safe++
	m.noteSafe(m.Clock.now())
	return longWait
}

// endsSafe reports whether the newest frame of the file is the safe frame, so that no other is needed. m.mu must
// be held.
func (m *Mirror) endsSafe() bool {
	r := m.file.ch.Reader()
	frame := make([]byte, len(m.qos.OnStale.Frame)+1)
	n, err := r.TryNext(frame)
	return err == nil && string(frame[:n]) == m.qos.OnStale.Frame
}

// PutSafe puts a missing safe frame now, before another host begins to feed the mirror. isMissing reports that it could
// not be put, for example since the file's lock was taken; call PutSafe again then.
func (m *Mirror) PutSafe() (isMissing bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.file.w != nil && m.putSafe() != longWait
}

// putLast puts a missing safe frame while the mirror closes. busy reports whether the file's lock was taken;
// call putLast again then.
func (m *Mirror) putLast() (busy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	transitions.Move(&m.health.phase, closed)
	m.frames.pending.seq = 0
	return m.file.w != nil && m.putSafe() == busyRetry
}

// stopDeadlineMonitor stops the goroutine that monitors the deadline. m.mu must be held.
func (m *Mirror) stopDeadlineMonitor() {
	if m.deadlineMonitor.done != nil {
		close(m.deadlineMonitor.done)
		m.deadlineMonitor.done = nil
		if m.deadlineMonitor.phase != timely && m.deadlineMonitor.event != 0 {
			m.Events.Ended(m.deadlineMonitor.event, 0)
		}
	}
}

// staleText describes why the mirror is stale. m.mu must be held.
func (m *Mirror) staleText(now time.Duration) string {
	what := "no frame"
	if m.frames.lateness.frames > 0 {
		what = "no frame in time"
	}
	text := fmt.Sprintf("%s for %s, its deadline is %s", what, unit.Time((now - m.deadlineMonitor.last).Round(10*time.Millisecond)), unit.Time(m.qos.Deadline))
	if m.qos.OnStale.File != "" && !m.deadlineMonitor.armed && m.deadlineMonitor.safe > 0 {
		text += "; the safe frame was put"
	}
	return text
}

// wakeUp wakes the goroutine that waits on c, or the next one that will. It does not block.
func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
