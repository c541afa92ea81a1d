package localach

import (
	"container/heap"
	"maps"
	"slices"
	"time"
)

// lookQueue says which file to check next, and when. The owners of files that are due take turns. Of one owner's files the
// one that changed last comes first.
type lookQueue struct {
	owners map[uint32]*lookOwner
	order  []*lookOwner // owners with a file that is due, in the order of their turns
}

// lookOwner is one user's files.
type lookOwner struct {
	id     uint32
	files  map[*known]struct{}
	asleep sleepers  // by the time when they are due
	due    newcomers // by their last change
	listed bool      // in order
}

// wait is a file's place in the queue.
type wait struct {
	owner uint32
	until time.Time
	in    waitState
	index int // in the heap
}

type waitState int

const (
	waitNone waitState = iota
	waitAsleep
	waitDue
)

func newLookQueue() lookQueue { return lookQueue{owners: map[uint32]*lookOwner{}} }

// count adds k, without a check in the queue.
func (q *lookQueue) count(k *known) {
	o := q.owners[k.owner]
	if o == nil {
		o = &lookOwner{id: k.owner, files: map[*known]struct{}{}}
		q.owners[k.owner] = o
	}
	o.files[k] = struct{}{}
}

// drop forgets k.
func (q *lookQueue) drop(k *known) {
	q.settle(k)
	o := q.owners[k.owner]
	if delete(o.files, k); len(o.files) == 0 && !o.listed {
		delete(q.owners, k.owner)
	}
}

// settle removes k's check from the queue.
func (q *lookQueue) settle(k *known) {
	o := q.owners[k.owner]
	switch k.in {
	case waitAsleep:
		heap.Remove(&o.asleep, k.index)
	case waitDue:
		heap.Remove(&o.due, k.index)
	}
	k.in = waitNone
}

// sleep makes k due at a time.
func (q *lookQueue) sleep(k *known, until time.Time) {
	q.settle(k)
	k.in, k.until = waitAsleep, until
	heap.Push(&q.owners[k.owner].asleep, k)
}

// hurry makes k due now, before other files of its owner.
func (q *lookQueue) hurry(k *known, now time.Time) {
	q.settle(k)
	k.changed, k.pause, k.told = now, 0, true
	q.wake(q.owners[k.owner], k)
}

// rouse makes k due now, after files that its owner has changed later.
func (q *lookQueue) rouse(k *known) {
	if k.in != waitDue {
		q.settle(k)
		q.wake(q.owners[k.owner], k)
	}
}

func (q *lookQueue) wake(o *lookOwner, k *known) {
	k.in = waitDue
	heap.Push(&o.due, k)
	if !o.listed {
		o.listed = true
		q.order = append(q.order, o)
	}
}

// run calls look for the next file that is due; it returns false if none is.
func (q *lookQueue) run(now time.Time, look func(*known, time.Time)) bool {
	for _, o := range q.owners {
		for len(o.asleep) > 0 && !o.asleep[0].until.After(now) {
			q.wake(o, heap.Pop(&o.asleep).(*known))
		}
	}
	for len(q.order) > 0 {
		o := q.order[0]
		q.order = q.order[1:]
		o.listed = false
		if len(o.due) == 0 {
			if len(o.files) == 0 {
				delete(q.owners, o.id)
			}
			continue
		}
		k := heap.Pop(&o.due).(*known)
		k.in = waitNone
		if len(o.due) > 0 {
			o.listed = true
			q.order = append(q.order, o)
		}
		look(k, now)
		return true
	}
	return false
}

// next is when something is due.
func (q *lookQueue) next() (first time.Time, ok bool) {
	for _, o := range q.owners {
		if len(o.due) > 0 {
			return time.Time{}, true
		}
		if len(o.asleep) > 0 && (!ok || o.asleep[0].until.Before(first)) {
			first, ok = o.asleep[0].until, true
		}
	}
	return first, ok
}

// crowd returns a file of the owner with most files. It prefers one that is not yet a channel.
func (q *lookQueue) crowd() *known {
	var most *lookOwner
	for _, id := range slices.Sorted(maps.Keys(q.owners)) {
		if o := q.owners[id]; most == nil || len(o.files) > len(most.files) {
			most = o
		}
	}
	switch {
	case most == nil:
		return nil
	case len(most.asleep) > 0:
		return most.asleep[len(most.asleep)-1]
	case len(most.due) > 0:
		return most.due[len(most.due)-1]
	}
	for k := range most.files {
		return k
	}
	return nil
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

type newcomers []*known

func (s newcomers) Len() int           { return len(s) }
func (s newcomers) Less(i, j int) bool { return s[i].changed.After(s[j].changed) }
func (s newcomers) Swap(i, j int)      { s[i], s[j] = s[j], s[i]; s[i].index, s[j].index = i, j }
func (s *newcomers) Push(x any) {
	k := x.(*known)
	k.index = len(*s)
	*s = append(*s, k)
}
func (s *newcomers) Pop() any {
	last := (*s)[len(*s)-1]
	(*s)[len(*s)-1] = nil
	*s = (*s)[:len(*s)-1]
	return last
}
