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
	m.showStale(&s)
	if m.state == status.MirrorLive && m.lateness.only(now) {
		s.LateS = (now - m.lateness.since).Seconds()
	}
	if silence != "" && m.state == status.MirrorLive {
		s.Reason, s.Cause = silence, status.CausePeerSilent
	}
	m.learn(at)
	m.showContest(&s)
	s.AgeMs = m.ages.now(now)
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
