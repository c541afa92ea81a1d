package discovery

import "time"

// limiter limits a log line that anybody on the network can cause: it counts the causes, and
// allows one line in a period.
type limiter struct {
	count int
	last  time.Time // when a line was let through
}

// add counts one more cause for the line.
func (l *limiter) add() { l.count++ }

// due returns how many causes the line stands for, and whether to write it now.
func (l *limiter) due(now time.Time, period time.Duration) (count int, ok bool) {
	if l.count == 0 || !l.last.IsZero() && now.Sub(l.last) < period {
		return 0, false
	}
	count = l.count
	l.count, l.last = 0, now
	return count, true
}

// trouble is an error that goes on: it is worth a line when it begins, or changes.
type trouble struct{ text string }

// begins reports whether err is another trouble than the last one; nil ends the trouble.
func (t *trouble) begins(err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	begins := text != "" && text != t.text
	t.text = text
	return begins
}
