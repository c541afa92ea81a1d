package mirror

import (
	"log/slog"
	"time"

	"achbridge/bridge/phases"
	"achbridge/bridge/status"
)

// health holds the phase of a mirror and why its frames are not put. It is guarded by the mirror's mu.
type health struct {
	phase     phase
	reason    string // why the mirror is not live, or why its frames are refused; empty otherwise
	cause     status.Cause
	refusedBy string // host that refuses the mirror; empty means this host

	failure      string        // error of the last failed put or refused frame; empty after a successful put
	refusesSince time.Duration // since when every frame has been refused; 0 after a successful put
	loggedAt     time.Duration // when a failure was last logged; 0 means never
}

// phase is the phase of a mirror's lifetime.
type phase int

const (
	waiting phase = iota // no subscription feeds the mirror
	live                 // a subscription feeds the mirror
	refused              // this host or another one refuses the mirror
	closed               // Close was called: no frame is put any more, except the safe frame
)

var transitions = phases.Transitions[phase]{
	waiting: {live, refused, closed},
	live:    {waiting, refused, closed},
	refused: {waiting, live, closed},
}

// enter changes the phase, cause and reason. news reports whether the phase or the reason changed. After Close
// it does nothing, since a connection may end at the same time.
func (h *health) enter(to phase, cause status.Cause, reason string) (news bool) {
	if h.phase == closed {
		return false
	}
	news = h.phase != to || h.reason != reason
	transitions.Move(&h.phase, to)
	h.reason, h.cause = reason, cause
	return news
}

// fail records why a frame is refused. It reports whether to log the failure: at most once a second, since a
// peer can send frames that are all invalid in different ways.
func (h *health) fail(err error, now time.Duration) (logIt bool) {
	if h.refusesSince == 0 {
		h.refusesSince = now
	}
	h.reason, h.cause = err.Error(), CauseOf(err)
	if h.failure == h.reason {
		return false
	}
	h.failure = h.reason
	if h.loggedAt != 0 && now-h.loggedAt < warnEvery {
		return false
	}
	h.loggedAt = now
	return true
}

const warnEvery = time.Second

// recover records that a frame was put.
func (h *health) recover() {
	if h.failure != "" {
		h.failure, h.reason, h.cause, h.refusesSince = "", "", "", 0
	}
}

// refusedAfter is the time without a successful put after which the mirror's state is refused. The node repairs
// most failures sooner.
const refusedAfter = time.Second

// refusesAll reports whether every frame has been refused for refusedAfter.
func (h *health) refusesAll(now time.Duration) bool {
	return h.refusesSince != 0 && now-h.refusesSince >= refusedAfter
}

// Refuse marks the mirror as refused by this host. It reports whether the phase or the reason changed.
func (m *Mirror) Refuse(cause status.Cause, reason string) (news bool) {
	return m.RefusedBy("", cause, reason)
}

// RefusedBy is like Refuse, but host refuses the mirror. The problem has to be fixed on that host.
func (m *Mirror) RefusedBy(host string, cause status.Cause, reason string) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	news = m.health.enter(refused, cause, reason)
	m.health.refusedBy, m.file.planned = host, nil
	m.endForeignWriter("we do not write into it any more")
	m.writeMetadata()
	return news
}

// Unfed records that no subscription feeds the mirror, and why.
func (m *Mirror) Unfed(cause status.Cause, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.health.enter(waiting, cause, reason)
	m.endForeignWriter("we do not write into it any more")
	m.writeMetadata()
}

// failed records a failure, and logs it as an event if it is new. m.mu must be held.
func (m *Mirror) failed(message string, err error) {
	if m.Into != nil {
		m.Into.health.fail(err, m.Clock.now()) // a damaged file must be replaced
	}
	if m.health.fail(err, m.Clock.now()) {
		m.Events.Record(slog.LevelError, message, m.event(status.EventRefused, message+": "+err.Error()), "err", err)
	}
}
