package mirror

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/unit"
)

// contest is that somebody else writes into the file of a mirror while we do: another
// daemon, or a program. Readers then get the frames of both. It is under the mirror's mu.
type contest struct {
	seen    uint64        // last_seq, as far as it is accounted for
	last    time.Duration // when another's frame was noticed last; 0: there is no contest
	ours    uint64        // frames that we have put since
	foreign uint64        // frames that somebody else has put, in all contests
}

// A contest is over when for a while we have put several frames and nobody else has put
// one; or for so long that nothing is to be expected.
const (
	contestCalm   = 10 * time.Second
	contestFrames = 3
	contestMost   = 10 * time.Minute
)

// lookForOthers notes that the file has come to frame seq, of which we have put ours since
// the last look. Needs m.mu.
func (m *Mirror) lookForOthers(seq, ours uint64) {
	c := &m.file.contest
	others := seq - min(seq, c.seen+ours)
	c.seen = seq
	switch {
	case others > 0:
		m.file.contest.foreign += others
		if c.last == 0 {
			m.Events.Tell(slog.LevelWarn, "somebody else writes into a mirror", m.event(status.EventForeignWriter, contestText))
		}
		c.last, c.ours = m.Clock.now(), 0
	case c.last != 0:
		c.ours += ours
		if calm := m.Clock.now() - c.last; calm > contestMost || calm > contestCalm && c.ours >= contestFrames {
			m.endContest("nobody else writes into it any more")
		}
	}
}

// lookAtFile is lookForOthers between our own puts. Needs m.mu.
func (m *Mirror) lookAtFile() {
	if m.file.w != nil {
		m.lookForOthers(m.file.ch.LastSeq(), 0)
	}
}

// beginContest has only what comes from now on count as a contest: we begin to write.
// Needs m.mu.
func (m *Mirror) beginContest() {
	if m.file.w == nil {
		return
	}
	seq := m.file.ch.LastSeq()
	m.file.contest.foreign += seq - min(seq, m.file.contest.seen)
	m.file.contest.seen = seq
}

// endContest needs m.mu.
func (m *Mirror) endContest(why string) {
	if m.file.contest.last == 0 {
		return
	}
	m.file.contest.last = 0
	m.Events.Tell(slog.LevelInfo, "nobody else writes into a mirror", m.event(status.EventForeignGone, why))
}

// contestText is what an operator is told.
const contestText = "somebody else writes into it too: another achbridge, or a program of this host"

// showContest needs m.mu.
func (m *Mirror) showContest(s *status.Mirror) {
	if m.file.contest.last == 0 {
		return
	}
	text := fmt.Sprintf("%s; %d frames in all, the last %s ago", contestText, m.file.contest.foreign, unit.Time((m.Clock.now() - m.file.contest.last).Round(100*time.Millisecond)))
	if s.State == status.MirrorLive {
		s.State = status.MirrorContested
	}
	if s.Reason != "" {
		text = s.Reason + "; " + text
	}
	s.Reason, s.Cause = text, cmp.Or(s.Cause, status.CauseForeignWriter)
}
