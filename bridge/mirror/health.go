package mirror

import (
	"log/slog"
	"time"

	"achbridge/bridge/phases"
	"achbridge/bridge/status"
)

// health is whether a mirror is fed and its frames are put, and if not, why not. It is under the mirror's mu.
type health struct {
	phase     phase
	reason    string // why the mirror is not live, or what is wrong with its frames; empty: neither
	cause     status.Cause
	refusedBy string // the host that refuses it; empty: this one

	failure      string        // why the last put failed, or a frame was refused; empty: neither since a good put
	refusesSince time.Duration // since when every frame is refused; 0: the last one was put
	loggedAt     time.Duration // when the log had something of frames last; 0: never
}

// phase is how far a mirror has come.
type phase int

const (
	waiting phase = iota // nobody feeds it
	live                 // a subscription feeds it
	refused              // this host or another one does not let it be fed
	closed               // Close was called: no frame is put any more, except the safe frame
)

var transitions = phases.Transitions[phase]{
	waiting: {live, refused, closed},
	live:    {waiting, refused, closed},
	refused: {waiting, live, closed},
}

// enter moves to phase to, for a cause and a reason, and reports whether these are new. What comes after Close changes nothing: a
// connection may end at the same time.
func (h *health) enter(to phase, cause status.Cause, reason string) (news bool) {
	if h.phase == closed {
		return false
	}
	news = h.phase != to || h.reason != reason
	transitions.Move(&h.phase, to)
	h.reason, h.cause = reason, cause
	return news
}

// fail records why a frame is refused at now. It reports whether the log is to have it: at most once a second, since a peer can
// have every frame be wrong in another way.
func (h *health) fail(err error, now time.Duration) (logIt bool) {
	if h.refusesSince == 0 {
		h.refusesSince = now
	}
	h.reason, h.cause = err.Error(), CauseOf(err)
	if h.failure == h.reason {
		return false
	}
	h.failure = h.reason
	if h.loggedAt != 0 && now-h.loggedAt < complainEvery {
		return false
	}
	h.loggedAt = now
	return true
}

const complainEvery = time.Second

// recover records that a frame was put.
func (h *health) recover() {
	if h.failure != "" {
		h.failure, h.reason, h.cause, h.refusesSince = "", "", "", 0
	}
}

// refusedAfter is for how long no frame could be put before a mirror is refused: what
// the node can heal it heals sooner.
const refusedAfter = time.Second

// refusesAll reports whether every frame that comes is refused.
func (h *health) refusesAll(now time.Duration) bool {
	return h.refusesSince != 0 && now-h.refusesSince >= refusedAfter
}

// Refuse marks the mirror as refused by this host, for a cause and a reason. It reports whether they are new.
func (m *Mirror) Refuse(cause status.Cause, reason string) (news bool) {
	return m.RefusedBy("", cause, reason)
}

// RefusedBy is Refuse for another host that refuses. The cure has to be applied on that host.
func (m *Mirror) RefusedBy(host string, cause status.Cause, reason string) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	news = m.health.enter(refused, cause, reason)
	m.health.refusedBy, m.file.planned = host, nil
	m.endContest("we do not write into it any more")
	m.tell()
	return news
}

// Unfed says that nobody feeds the mirror now, and why.
func (m *Mirror) Unfed(cause status.Cause, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.health.enter(waiting, cause, reason)
	m.endContest("we do not write into it any more")
	m.tell()
}

// failed says once what is wrong now. Needs m.mu.
func (m *Mirror) failed(message string, err error) {
	if m.health.fail(err, m.Clock.now()) {
		m.Events.Tell(slog.LevelError, message, m.event(status.EventRefused, message+": "+err.Error()), "err", err)
	}
}
