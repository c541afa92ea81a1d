package localach

import (
	"container/heap"
	"time"
)

// lookQueue says which file to check next, and when. Files that are due are checked in the order in which they became due,
// so that files that change all the time delay the others by one check each.
type lookQueue struct {
	asleep sleepers // by the time when they are due
	due    []*known
}

// wait is a file's place in the queue.
type wait struct {
	until time.Time
	in    waitState
	index int // in asleep
}

type waitState int

const (
	waitNone waitState = iota
	waitAsleep
	waitDue
)

// wakeUp removes k from the files that are due later.
func (q *lookQueue) wakeUp(k *known) {
	if k.in == waitAsleep {
		heap.Remove(&q.asleep, k.index)
		k.in = waitNone
	}
}

// sleep makes k, which is not in the queue, due at a time.
func (q *lookQueue) sleep(k *known, until time.Time) {
	k.in, k.until = waitAsleep, until
	heap.Push(&q.asleep, k)
}

// rouse makes k due now.
func (q *lookQueue) rouse(k *known) {
	if k.in == waitDue {
		return
	}
	q.wakeUp(k)
	k.in = waitDue
	q.due = append(q.due, k)
}

// run calls look for the next file that is due; it returns false if none is.
func (q *lookQueue) run(now time.Time, look func(*known, time.Time)) bool {
	for len(q.asleep) > 0 && !q.asleep[0].until.After(now) {
		q.rouse(q.asleep[0])
	}
	if len(q.due) == 0 {
		return false
	}
	k := q.due[0]
	q.due[0] = nil
	q.due = q.due[1:]
	k.in = waitNone
	look(k, now)
	return true
}

// next is when something is due.
func (q *lookQueue) next() (first time.Time, ok bool) {
	switch {
	case len(q.due) > 0:
		return time.Time{}, true
	case len(q.asleep) > 0:
		return q.asleep[0].until, true
	}
	return time.Time{}, false
}

type sleepers []*known

func (s sleepers) Len() int           { return len(s) }
func (s sleepers) Less(i, j int) bool { return s[i].until.Before(s[j].until) }
func (s sleepers) Swap(i, j int)      { s[i], s[j] = s[j], s[i]; s[i].index, s[j].index = i, j }
func (s *sleepers) Push(x any) {
	k := x.(*known)
	k.index = len(*s)
	*s = append(*s, k)
}
func (s *sleepers) Pop() any {
	last := (*s)[len(*s)-1]
	(*s)[len(*s)-1] = nil
	*s = (*s)[:len(*s)-1]
	return last
}
