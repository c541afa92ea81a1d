package mirror

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/unit"
)

// foreignWriter tracks a foreign writer: another daemon or program that writes into the mirror's file while we do.
// Readers then get the frames of both writers. It is guarded by the mirror's mu.
type foreignWriter struct {
	lastAttributed uint64        // last_seq up to which all frames are attributed to a writer
	last           time.Duration // when the last foreign frame was noticed; 0 means there is no foreign writer
	ours           uint64        // frames that we have put since last
	foreign        uint64        // total number of frames by foreign writers
}

// A contest ends after foreignCalm without a foreign frame, if we have put at least foreignCalmFrames meanwhile.
// After foreignCalmMax it ends in any case.
const (
	foreignCalm       = 10 * time.Second
	foreignCalmFrames = 3
	foreignCalmMax    = 10 * time.Minute
)

// countForeignFrames compares the file's last_seq with the number of frames that we have put since the previous call.
// The difference are foreign frames. m.mu must be held.
func (m *Mirror) countForeignFrames(seq, ours uint64) {
	c := &m.file.foreignWriter
	others := seq - min(seq, c.lastAttributed+ours)
	c.lastAttributed = seq
	switch {
	case others > 0:
		m.noteForeignFrames(others)
	case c.last != 0:
		c.ours += ours
		if calm := m.Clock.now() - c.last; calm > foreignCalmMax || calm > foreignCalm && c.ours >= foreignCalmFrames {
			m.endForeignWriter("nobody else writes into it any more")
		}
	}
}

// noteForeignFrames counts frames of a foreign writer. m.mu must be held.
func (m *Mirror) noteForeignFrames(n uint64) {
	c := &m.file.foreignWriter
	c.foreign += n
	if c.last == 0 {
		m.Events.Record(slog.LevelWarn, "foreign writer in a mirror", m.event(status.EventForeignWriter, foreignWriterText))
	}
	c.last, c.ours = m.Clock.now(), 0
}

// checkForeignFrames checks for foreign frames between our own puts. m.mu must be held.
func (m *Mirror) checkForeignFrames() {
	if m.file.w != nil {
		m.countForeignFrames(m.file.ch.LastSeq(), 0)
	}
}

// resetForeignWriter adds the foreign frames since the last check to the total without an event, because our own puts
// begin only now. m.mu must be held.
func (m *Mirror) resetForeignWriter() {
	if m.file.w == nil {
		return
	}
	seq := m.file.ch.LastSeq()
	m.file.foreignWriter.foreign += seq - min(seq, m.file.foreignWriter.lastAttributed)
	m.file.foreignWriter.lastAttributed = seq
}

// endForeignWriter ends the contest, if there is one, and logs why. m.mu must be held.
func (m *Mirror) endForeignWriter(why string) {
	if m.file.foreignWriter.last == 0 {
		return
	}
	m.file.foreignWriter.last = 0
	m.Events.Record(slog.LevelInfo, "nobody else writes into a mirror", m.event(status.EventForeignGone, why))
}

// foreignWriterText describes a foreign writer in events and in the status.
const foreignWriterText = "another achbridge or a program of this host writes into it too"

// showForeignWriter adds the foreign writer, if there is one, to the status. m.mu must be held.
func (m *Mirror) showForeignWriter(s *status.Mirror) {
	if m.file.foreignWriter.last == 0 {
		return
	}
	text := fmt.Sprintf("%s; %d frames in all, the last %s ago", foreignWriterText, m.file.foreignWriter.foreign, unit.Time((m.Clock.now() - m.file.foreignWriter.last).Round(100*time.Millisecond)))
	if s.State == status.MirrorLive {
		s.State = status.MirrorForeignWriter
	}
	if s.Reason != "" {
		text = s.Reason + "; " + text
	}
	s.Reason, s.Cause = text, cmp.Or(s.Cause, status.CauseForeignWriter)
}
