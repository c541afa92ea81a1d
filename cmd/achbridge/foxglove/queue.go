package foxglove

import (
	"container/heap"
	"sync/atomic"
	"time"
)

// slot is the place of one topic of a viewer for a message. It holds no frame: the message is made when it is sent.
type slot struct {
	id      uint32 // ID of the subscription, chosen by the viewer
	channel uint32
	topic   *topic
	feed    feed
	last    uint64 // number of the last message; belongs to the goroutine that makes the viewer's next message

	isOffered atomic.Bool // the feed has reported something new since the last message was made

	// Guarded by the viewer's mu.
	place     place
	index     int           // in queue.later
	notBefore time.Duration // time of the next message at the earliest
	before    time.Duration // notBefore when the slot was last taken out of the queue
	isRemoved bool
}

// place is where a slot waits.
type place int

const (
	idle    place = iota // nothing is to be sent
	isReady              // in queue.ready
	isLater              // in queue.later, until notBefore
)

// queue chooses the slot whose message is sent next: of those that are due, the one that has waited longest. It is pure: times
// are passed by the caller.
type queue struct {
	period time.Duration // least time between two messages of one slot
	ready  []*slot       // first in, first out
	later  laterSlots
}

// offer queues a slot, unless it is queued already.
func (q *queue) offer(s *slot, now time.Duration) {
	switch {
	case s.place != idle || s.isRemoved:
	case s.notBefore > now:
		s.place = isLater
		heap.Push(&q.later, s)
	default:
		s.place = isReady
		q.ready = append(q.ready, s)
	}
}

// next takes the next slot out of the queue. It returns nil if none is due; wait is then the time until one is due, 0 if no
// slot is queued. A message that is late by less than the period does not delay the next one, so that the rate is that of the
// period.
func (q *queue) next(now time.Duration) (s *slot, wait time.Duration) {
	for len(q.later) > 0 && q.later[0].notBefore <= now {
		s := heap.Pop(&q.later).(*slot)
		s.place = isReady
		q.ready = append(q.ready, s)
	}
	if len(q.ready) > 0 {
		s, q.ready = q.ready[0], q.ready[1:]
		s.place, s.before, s.notBefore = idle, s.notBefore, max(s.notBefore+q.period, now)
		return s, 0
	}
	if len(q.later) > 0 {
		return nil, q.later[0].notBefore - now
	}
	return nil, 0
}

// undo makes a slot that next has returned due again, because there was no message for it.
func (q *queue) undo(s *slot) {
	if s.place == idle {
		s.notBefore = s.before
	}
}

// remove takes a slot out of the queue for good.
func (q *queue) remove(s *slot) {
	switch s.place {
	case isLater:
		heap.Remove(&q.later, s.index)
	case isReady:
		for i := range q.ready {
			if q.ready[i] == s {
				q.ready = append(q.ready[:i:i], q.ready[i+1:]...)
				break
			}
		}
	}
	s.place, s.isRemoved = idle, true
}

// laterSlots is a heap by notBefore.
type laterSlots []*slot

func (l laterSlots) Len() int           { return len(l) }
func (l laterSlots) Less(i, j int) bool { return l[i].notBefore < l[j].notBefore }
func (l laterSlots) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}

func (l *laterSlots) Push(x any) {
	s := x.(*slot)
	s.index = len(*l)
	*l = append(*l, s)
}

func (l *laterSlots) Pop() any {
	last := len(*l) - 1
	s := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return s
}
