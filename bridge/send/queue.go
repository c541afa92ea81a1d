package send

import (
	"time"

	"achbridge/bridge/lock"
)

// news lists the subscriptions of a link with new frames that the send loop has not collected yet. It
// is safe for concurrent use.
type news struct {
	mu lock.Mutex[lock.News]
	of []*Subscription // each once, since Arrivals reports once before the next Collect
}

// add appends sub. It reports whether the send loop must be woken.
func (n *news) add(sub *Subscription) (wake bool) {
	n.mu.Lock()
	n.of = append(n.of, sub)
	wake = len(n.of) == 1
	n.mu.Unlock()
	return wake
}

// activate makes the send loop look at sub, which may have something to send. l.mu must be held.
func (l *Link) activate(sub *Subscription) {
	if sub.activity == idle {
		sub.activity = active
		l.active = append(l.active, sub)
	}
}

// activateNews makes the send loop look at the subscriptions with new frames. l.mu must be held.
func (l *Link) activateNews() {
	l.news.mu.Lock()
	defer l.news.mu.Unlock()
	for _, sub := range l.news.of {
		sub.lastCollected = sub.source.arrivals.Collect()
		l.activate(sub)
	}
	clear(l.news.of)
	l.news.of = l.news.of[:0]
}

// queue holds the subscriptions that have something to send: higher priorities first, then more
// urgent ones, then older subscriptions. It is a heap, since a datagram takes the first few of many.
type queue struct {
	entries []queued     // a heap of those that wait, and behind it those that were served
	waiting int          // number of entries that wait
	waits   [levels]bool // priorities of all
	level   int          // priority of the first
}

// fillQueue puts the subscriptions that have something to send into the queue. A lower
// priority whose share has grown to a packet goes before all. Idle subscriptions leave
// the active list until a new frame comes.
func (l *Link) fillQueue(q *queue, now time.Duration) {
	l.activateNews()
	q.entries, q.waits = q.entries[:0], [levels]bool{}
	still := l.active[:0]
	isPathDrained, rate := l.control.Drained(), l.control.Rate()
	for _, sub := range l.active {
		if sub.activity == ended {
			continue
		}
		sub.expire(now, rate)
		sub.isPathDrained = isPathDrained
		sub.hasWaited = sub.hasWaited || sub.isNewer() && (sub.current.isBusy() || sub.source.request.Copying())
		t, ok := sub.offer(now)
		if ok {
			q.entries = append(q.entries, t)
			q.waits[t.level] = true
		}
		if !ok && !sub.isNewer() && !sub.current.isBusy() && !sub.older.isBusy() && sub.every == nil {
			sub.activity = idle
			continue
		}
		still = append(still, sub)
	}
	clear(l.active[len(still):])
	l.active = still
	due := l.shares.due(q.waits)
	for i := range q.entries {
		t := &q.entries[i]
		if t.rank = t.level; t.level == due {
			t.rank = levels
		}
	}
	q.form(len(q.entries))
}

// held records that all entries had to wait for the link.
func (q *queue) held() {
	for i := range q.entries {
		q.entries[i].sub.hasWaited = true
	}
}

// form makes a heap of the first entries.
func (q *queue) form(entries int) {
	q.waiting = entries
	for i := q.waiting/2 - 1; i >= 0; i-- {
		q.down(i)
	}
	if t, ok := q.first(); ok {
		q.level = t.level
	}
}

// first is the subscription that is served next.
func (q *queue) first() (t queued, ok bool) {
	if q.waiting == 0 {
		return queued{}, false
	}
	return q.entries[0], true
}

// next takes the first out of the queue and returns the one behind it.
func (q *queue) next() (t queued, ok bool) {
	q.waiting--
	q.entries[0], q.entries[q.waiting] = q.entries[q.waiting], q.entries[0]
	q.down(0)
	return q.first()
}

// down moves entry i to its place in the heap.
func (q *queue) down(i int) {
	heap := q.entries[:q.waiting]
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child+1].before(&heap[child]) {
			child++
		}
		if !heap[child].before(&heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

func (t *queued) before(o *queued) bool {
	switch {
	case t.rank != o.rank:
		return t.rank > o.rank
	case t.urgency != o.urgency:
		return t.urgency > o.urgency
	}
	return t.sub.id < o.sub.id
}

// leaveOutWhole leaves only parts of large frames waiting, and returns how many others did.
func (q *queue) leaveOutWhole() (whole int) {
	parts := 0
	for i := range q.waiting {
		if t := q.entries[i]; !t.sub.small() && !t.sub.current.isWhole {
			q.entries[i], q.entries[parts] = q.entries[parts], t
			parts++
		}
	}
	whole = q.waiting - parts
	q.form(parts)
	return whole
}
