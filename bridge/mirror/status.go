package mirror

import (
	"cmp"
	"time"

	"achbridge/bridge/status"
)

// Status returns the mirror's status at now. at holds the current estimate of the peer's clock. silence
// describes why nothing arrives over an existing link; it is "" if frames arrive.
func (m *Mirror) Status(now time.Duration, at Reading, silence string) status.Mirror {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := status.Mirror{
		Host: m.Host, Channel: m.Channel, Name: m.Name, State: m.state(), Reason: m.health.reason, Cause: m.health.cause,
		Bytes: m.frames.size, OneWayDelayMs: m.frames.oneWayDelayMs(), OriginCause: m.counters.originCause, LockWaitS: m.frames.pending.waits.Total(now).Seconds(),
		QoS: m.qos.WithoutFrame(), Seq: m.file.tag.Seq, FrameCounters: m.frameCounters(), Replaced: m.file.replaced, Foreign: m.file.foreignWriter.foreign, Safe: m.deadlineMonitor.safe, Temporary: m.Temporary, Stamps: m.stampStatus(),
	}
	if share, ok := m.counters.recent.Growth(s.FrameCounters).LostRatio(); ok {
		s.LostShare = &share
	}
	m.showStale(&s)
	if m.health.phase == refused {
		s.RefusedBy = m.health.refusedBy
	}
	if m.health.phase == live && m.frames.lateness.only(now) {
		s.LateS = (now - m.frames.lateness.since).Seconds()
	}
	if silence != "" && m.health.phase == live {
		s.Reason, s.Cause = silence, status.CausePeerSilent
	}
	m.learn(at)
	m.showForeignWriter(&s)
	m.showKernelCopy(&s)
	s.AgeMs = m.frames.ages.now(now)
	m.showUnauthenticated(&s, now)
	period, known := m.frames.pace.Period(m.qos.MaxRate.Interval())
	s.PeriodMs, s.DueMs = status.Due(s.AgeMs, period, known)
	return s
}

// state returns the state that the status reports. m.mu must be held.
func (m *Mirror) state() status.MirrorState {
	switch {
	case m.health.phase == refused:
		return status.MirrorRefused
	case m.health.phase != live, m.source.silent:
		return status.MirrorWaiting
	case m.health.refusesAll(m.Clock.now()):
		return status.MirrorRefused
	case m.deadlineMonitor.isStale():
		return status.MirrorStale
	}
	return status.MirrorLive
}

// showStale adds to the status how long the mirror has been stale, if it is. m.mu must be held.
func (m *Mirror) showStale(s *status.Mirror) {
	if !m.deadlineMonitor.isStale() {
		return
	}
	now := m.Clock.now()
	s.StaleS = (now - m.deadlineMonitor.last - m.qos.Deadline).Seconds()
	if s.State == status.MirrorStale {
		s.Reason = cmp.Or(s.Reason, m.staleText(now))
	}
}

// showUnauthenticated marks the status of an unauthenticated mirror. Its age and its origin's counters are
// unknown, so the time since the last arrival replaces the age. m.mu must be held.
func (m *Mirror) showUnauthenticated(s *status.Mirror, now time.Duration) {
	s.Unauthenticated, s.OneSided = m.Unauthenticated, m.Unauthenticated
	if m.Unauthenticated && m.frames.putAt != 0 {
		since := status.Ms(max(0, now-m.frames.putAt))
		s.SinceArrivalMs = &since
	}
}
