package localach

import (
	"container/heap"
	"time"
)

// checkQueue decides which file to check next, and when. Files are checked in the order in which they became due, so that a
// file that changes all the time delays each other file by only one check.
type checkQueue struct {
	scheduled schedule // sorted by the time at which they are due
	due       []*watchedName
}

// queuePlace is the place of a file in the queue.
type queuePlace struct {
	until time.Time
	state queueState
	index int // index in scheduled
}

type queueState int

const (
	stateNone queueState = iota
	stateScheduled
	stateDue
)

// unschedule removes k from the scheduled files.
func (q *checkQueue) unschedule(k *watchedName) {
	if k.state == stateScheduled {
		heap.Remove(&q.scheduled, k.index)
		k.state = stateNone
	}
}

// schedule makes k, which is not in the queue, due at a time.
func (q *checkQueue) schedule(k *watchedName, until time.Time) {
	k.state, k.until = stateScheduled, until
	heap.Push(&q.scheduled, k)
}

// makeDue makes k due now, unless it is due already.
func (q *checkQueue) makeDue(k *watchedName) {
	if k.state == stateDue {
		return
	}
	q.unschedule(k)
	k.state = stateDue
	q.due = append(q.due, k)
}

// run calls check for the next file that is due. It returns false if there is none.
func (q *checkQueue) run(now time.Time, check func(*watchedName, time.Time)) bool {
	for len(q.scheduled) > 0 && !q.scheduled[0].until.After(now) {
		q.makeDue(q.scheduled[0])
	}
	if len(q.due) == 0 {
		return false
	}
	k := q.due[0]
	q.due[0] = nil
	q.due = q.due[1:]
	k.state = stateNone
	check(k, now)
	return true
}

// next returns when the next file is due.
func (q *checkQueue) next() (first time.Time, ok bool) {
	switch {
	case len(q.due) > 0:
		return time.Time{}, true
	case len(q.scheduled) > 0:
		return q.scheduled[0].until, true
	}
	return time.Time{}, false
}

type schedule []*watchedName

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].until.Before(s[j].until) }
func (s schedule) Swap(i, j int)      { s[i], s[j] = s[j], s[i]; s[i].index, s[j].index = i, j }
func (s *schedule) Push(x any) {
	k := x.(*watchedName)
	k.index = len(*s)
	*s = append(*s, k)
}
func (s *schedule) Pop() any {
	last := (*s)[len(*s)-1]
	(*s)[len(*s)-1] = nil
	*s = (*s)[:len(*s)-1]
	return last
}
