package bridge

import (
	"time"

	"achbridge/bridge/lock"
)

// news is which subscriptions of a link have got a note that its pump has not
// read yet. Safe for concurrent use.
type news struct {
	mu lock.Mutex[lock.News]
	of []*export // each once, see note.told
}

// add reports whether the pump has to be woken: it is not on its way.
func (n *news) add(e *export) (wake bool) {
	n.mu.Lock()
	n.of = append(n.of, e)
	wake = len(n.of) == 1
	n.mu.Unlock()
	return wake
}

// rouse has the pump look at e, which may have something to send. Needs l.mu.
func (l *link) rouse(e *export) {
	if !e.active && !e.ended {
		e.active = true
		l.active = append(l.active, e)
	}
}

// rouseNoted has the pump look at those that have news. Needs l.mu.
func (l *link) rouseNoted() {
	l.news.mu.Lock()
	defer l.news.mu.Unlock()
	for _, e := range l.news.of {
		e.noted = e.note.hear()
		l.rouse(e)
	}
	clear(l.news.of)
	l.news.of = l.news.of[:0]
}

// line is the subscriptions that have something to send, in the order of their
// turns: by priority, those of one priority by benefit, then the older one. It is
// a heap, since a datagram takes the first few of many.
type line struct {
	turns   []turn       // those that wait are first, as a heap; then those that had their turn
	waiting int          // how many wait
	waits   [levels]bool // priorities of all
	level   int          // priority of the first
}

// lineUp puts those that have something to send in line. A lower priority whose
// share has grown to a packet goes before all. Who has nothing, and needs no look
// until there is news, is left alone from now on.
func (l *link) lineUp(w *line, now time.Duration) {
	l.rouseNoted()
	w.turns, w.waits = w.turns[:0], [levels]bool{}
	still := l.active[:0]
	for _, e := range l.active {
		if e.ended {
			continue
		}
		e.expire(now)
		t, ok := e.turn(now)
		if ok {
			w.turns = append(w.turns, t)
			w.waits[t.level] = true
		}
		if e.active = ok || e.busy() || e.tape != nil || e.noted.newest > e.loaded; e.active {
			still = append(still, e)
		}
	}
	clear(l.active[len(still):])
	l.active = still
	due := l.shares.due(w.waits)
	for i := range w.turns {
		t := &w.turns[i]
		if t.rank = t.level; t.level == due {
			t.rank = levels
		}
	}
	w.form()
}

// form makes the heap.
func (w *line) form() {
	w.waiting = len(w.turns)
	for i := w.waiting/2 - 1; i >= 0; i-- {
		w.down(i)
	}
	if t, ok := w.first(); ok {
		w.level = t.level
	}
}

// first is whose turn it is.
func (w *line) first() (t turn, ok bool) {
	if w.waiting == 0 {
		return turn{}, false
	}
	return w.turns[0], true
}

// next ends the first one's turn.
func (w *line) next() (t turn, ok bool) {
	w.waiting--
	w.turns[0], w.turns[w.waiting] = w.turns[w.waiting], w.turns[0]
	w.down(0)
	return w.first()
}

// down brings the turn at i to its place among those that wait.
func (w *line) down(i int) {
	q := w.turns[:w.waiting]
	for {
		child := 2*i + 1
		if child >= len(q) {
			return
		}
		if child+1 < len(q) && q[child+1].before(&q[child]) {
			child++
		}
		if !q[child].before(&q[i]) {
			return
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
}

func (t *turn) before(o *turn) bool {
	switch {
	case t.rank != o.rank:
		return t.rank > o.rank
	case t.urgency != o.urgency:
		return t.urgency > o.urgency
	}
	return t.e.id < o.e.id
}
