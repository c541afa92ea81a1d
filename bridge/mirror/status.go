package mirror

import (
	"cmp"
	"time"

	"achbridge/bridge/status"
)

// Status tells what the mirror does at now. at is what is known of the peer's clock, and
// silence says why nothing comes although there is a link, if so.
func (m *Mirror) Status(now time.Duration, at Reading, silence string) status.Mirror {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := status.Mirror{
		Host: m.Host, Channel: m.Channel, Name: m.Name, State: m.stateNow(), Reason: m.reason, Cause: m.cause,
		Bytes: m.bytes, TransitMs: m.transitMs(), OriginCause: m.originCause, LockWaitS: m.waits.Total(now).Seconds(),
		QoS: m.qos.WithoutFrame(), Seq: m.tag.Seq, Accounts: m.accounts(), Replaced: m.replaced, Foreign: m.foreign, Safe: m.vigil.safe, Temporary: m.Temporary,
	}
	if share, ok := m.lately.Growth(s.Accounts).LostRatio(); ok {
		s.LostShare = &share
	}
	m.showStale(&s)
	if m.state == status.MirrorRefused {
		s.RefusedBy = m.refusedBy
	}
	if m.state == status.MirrorLive && m.lateness.only(now) {
		s.LateS = (now - m.lateness.since).Seconds()
	}
	if silence != "" && m.state == status.MirrorLive {
		s.Reason, s.Cause = silence, status.CausePeerSilent
	}
	m.learn(at)
	m.showContest(&s)
	s.AgeMs = m.ages.now(now)
	m.showUnauthenticated(&s, now)
	period, known := m.pace.Period(m.qos.MaxRate.Interval())
	s.PeriodMs, s.DueMs = status.Due(s.AgeMs, period, known)
	return s
}

// stateNow needs m.mu.
func (m *Mirror) stateNow() status.MirrorState {
	switch {
	case m.state != status.MirrorLive:
		return cmp.Or(m.state, status.MirrorWaiting)
	case m.silent:
		return status.MirrorWaiting
	case m.refusesAll(m.Clock.now()):
		return status.MirrorRefused
	case m.vigil.stale:
		return status.MirrorStale
	}
	return status.MirrorLive
}

// showStale needs m.mu.
func (m *Mirror) showStale(s *status.Mirror) {
	if !m.vigil.stale {
		return
	}
	now := m.Clock.now()
	s.StaleS = (now - m.vigil.last - m.qos.Deadline).Seconds()
	if s.State == status.MirrorStale {
		s.Reason = cmp.Or(s.Reason, m.staleText(now))
	}
}

// showUnauthenticated tells what there is in place of the age at the origin and of the origin's account. Needs m.mu.
func (m *Mirror) showUnauthenticated(s *status.Mirror, now time.Duration) {
	s.Unauthenticated, s.OneSided = m.Unauthenticated, m.Unauthenticated
	if m.Unauthenticated && m.arrived != 0 {
		since := status.Ms(max(0, now-m.arrived))
		s.SinceArrivalMs = &since
	}
}
