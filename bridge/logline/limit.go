package logline

import "time"

// Limit limits a log line that others can cause. It counts the causes, so that each line
// can say how many it stands for. The caller keeps it from concurrent use, and gives the
// time by any clock that does not go back.
type Limit struct {
	Burst  int           // lines at once; 0 is 1
	Period time.Duration // after a burst, one line in each

	causes int           // since the last line
	full   time.Duration // when Burst lines may be written at once again
}

// Add counts one more cause for the line.
func (l *Limit) Add() { l.causes++ }

// Due returns how many causes the line stands for, and whether to write it now. It is not
// due without a cause.
func (l *Limit) Due(now time.Duration) (causes int, ok bool) {
	next := max(l.full, now) + l.Period
	if l.causes == 0 || next-now > time.Duration(max(1, l.Burst))*l.Period {
		return 0, false
	}
	causes = l.causes
	l.causes, l.full = 0, next
	return causes, true
}

// Cause is Add and Due: it counts a cause whose line is to be written at once.
func (l *Limit) Cause(now time.Duration) (causes int, ok bool) {
	l.Add()
	return l.Due(now)
}
