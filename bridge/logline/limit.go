package logline

import "time"

// Limit limits the rate of a log line that other hosts or programs can cause. It counts the causes, so that each line
// can contain the number since the last line. It is not safe for concurrent use. The caller may use any clock that does
// not go backwards.
type Limit struct {
	Burst  int           // lines at once; 0 means 1
	Period time.Duration // interval between lines after a burst

	causes int           // number of causes since the last line
	full   time.Duration // when Burst lines may be written at once again
}

// Add counts one more cause of the line.
func (l *Limit) Add() { l.causes++ }

// Due reports whether to write the line now, and returns the number of causes since the last one. The line is not due
// without a cause.
func (l *Limit) Due(now time.Duration) (causes int, ok bool) {
	next := max(l.full, now) + l.Period
	if l.causes == 0 || next-now > time.Duration(max(1, l.Burst))*l.Period {
		return 0, false
	}
	causes = l.causes
	l.causes, l.full = 0, next
	return causes, true
}

// Pending reports whether there is a cause that no line contains.
func (l *Limit) Pending() bool { return l.causes > 0 }

// Cause calls Add and Due: it counts a cause whose line may be written at once.
func (l *Limit) Cause(now time.Duration) (causes int, ok bool) {
	l.Add()
	return l.Due(now)
}
