package snapshots

import "time"

// Spans decides which time each snapshot of a trigger covers. A trigger during a snapshot extends it, and a snapshot
// begins at the earliest where the one before ended, so that no frame is in two snapshots.
type Spans struct {
	Before  time.Duration // time that a snapshot covers before its trigger
	After   time.Duration // time that it covers after the trigger
	Longest time.Duration // maximum time that a snapshot covers

	running bool
	from    int64
	until   int64 // end of the running snapshot, or of the last one
}

// Fire handles a trigger at a log time. begins means that a new snapshot begins, since none is running or the running
// one has its full length; otherwise the running one was extended.
func (s *Spans) Fire(at int64) (begins bool) {
	end := at + int64(s.After)
	if longest := s.from + int64(s.Longest); s.running && at < longest {
		s.until = max(s.until, min(end, longest))
		return false
	}
	s.running = true
	s.from = max(at-int64(s.Before), s.until)
	s.until = max(end, s.from)
	return true
}

// Span returns the log times at which the running snapshot begins and ends. A message at until is not in it.
func (s *Spans) Span() (from, until int64) { return s.from, s.until }

// End notes that the running snapshot has ended, with the messages up to the log time until.
func (s *Spans) End(until int64) {
	s.running = false
	s.until = min(s.until, until)
}

// IsRunning reports whether a snapshot is running.
func (s *Spans) IsRunning() bool { return s.running }
