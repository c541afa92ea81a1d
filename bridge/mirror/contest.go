package mirror

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/unit"
)

// contest tracks a foreign writer: another daemon or program that writes into the mirror's file while we do.
// Readers then get the frames of both writers. It is guarded by the mirror's mu.
type contest struct {
	seen    uint64        // last_seq up to which all frames are attributed to a writer
	last    time.Duration // when the last foreign frame was noticed; 0 means there is no foreign writer
	ours    uint64        // frames that we have put since last
	foreign uint64        // total number of frames by foreign writers
}

// A contest ends after contestCalm without a foreign frame, if we have put at least contestFrames meanwhile.
// After contestMost it ends in any case.
const (
	contestCalm   = 10 * time.Second
	contestFrames = 3
	contestMost   = 10 * time.Minute
)

// lookForOthers compares the file's last_seq with the number of frames that we have put since the previous call.
// The difference are foreign frames. m.mu must be held.
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

// lookAtFile checks for foreign frames between our own puts. m.mu must be held.
func (m *Mirror) lookAtFile() {
	if m.file.w != nil {
		m.lookForOthers(m.file.ch.LastSeq(), 0)
	}
}

// beginContest adds the foreign frames since the last check to the total without an event, because our own puts
// begin only now. m.mu must be held.
func (m *Mirror) beginContest() {
	if m.file.w == nil {
		return
	}
	seq := m.file.ch.LastSeq()
	m.file.contest.foreign += seq - min(seq, m.file.contest.seen)
	m.file.contest.seen = seq
}

// endContest ends the contest, if there is one, and logs why. m.mu must be held.
func (m *Mirror) endContest(why string) {
	if m.file.contest.last == 0 {
		return
	}
	m.file.contest.last = 0
	m.Events.Tell(slog.LevelInfo, "nobody else writes into a mirror", m.event(status.EventForeignGone, why))
}

// contestText describes a foreign writer in events and in the status.
const contestText = "somebody else writes into it too: another achbridge, or a program of this host"

// showContest adds the foreign writer, if there is one, to the status. m.mu must be held.
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
