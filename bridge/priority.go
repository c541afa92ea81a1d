package bridge

import (
	"time"

	"achbridge/bridge/rule"
	"achbridge/wire"
)

// turn is a subscription that has something to send.
type turn struct {
	e       *export
	level   int     // its priority now: 7 goes first
	rank    int     // level, or above all when the level's share has come due
	urgency float64 // among those of the same level
}

const (
	levels     = rule.Levels
	lowerShare = 0.05 // of the bytes: what each lower priority that waits is sure of
	shareDue   = wire.MaxDatagram
)

// shares is what the priorities that wait behind others have coming, in bytes.
type shares [levels]float64

// due returns the waiting priority that has most coming, -1 when none has a
// packet.
func (s *shares) due(waits [levels]bool) int {
	due := -1
	for p := range s {
		if waits[p] && s[p] >= shareDue && (due < 0 || s[p] > s[due]) {
			due = p
		}
	}
	return due
}

// sent counts a datagram of size bytes that was filled in the order of a line;
// each priority spent so much of it, and the first one pays for the rest.
func (s *shares) sent(w *line, spent [levels]int, size int) {
	if len(w.turns) == 0 {
		return
	}
	rest := size
	for p := range s {
		rest -= spent[p]
		s[p] = max(0, s[p]-float64(spent[p]))
		if w.waits[p] && p < w.level {
			s[p] += lowerShare * float64(size)
		}
	}
	s[w.level] = max(0, s[w.level]-float64(rest))
}

// expire ends what is past its budget. A frame on its way is given up when a
// newer one is there to send instead; otherwise it is the debt that is owed to
// the mirror, and goes on as such. A command is never owed.
func (e *export) expire(now time.Duration) {
	newest, seen := e.noted.newest, e.noted.seen
	command := e.qos.Class == rule.Command
	if e.shared != nil && e.copies.stock.evicted() {
		e.letGo(now)
	}
	if e.busy() && !e.owed && e.over(e.captured, now) {
		e.owed = true
	}
	if e.busy() && e.owed && (command || newest > e.loaded) {
		e.giveUp()
	}
	if command && !e.busy() && newest > e.loaded && e.over(seen, now) {
		e.pass(newest, e.note.passedOver())
		e.book.Expired++
		e.loaded, e.left, e.copying = newest, false, false
	}
}

// busy reports whether the frame that was loaded last is not settled yet.
func (e *export) busy() bool { return e.todo || e.out.Active() || e.packing != wire.CodecNone }

// over reports that a frame captured then is past its budget. One that was put
// before we watched is, for all we know.
func (e *export) over(captured, now time.Duration) bool {
	if e.qos.Late == rule.LateDeliver || e.qos.Mode == rule.Every {
		return false
	}
	return captured == 0 || now-captured > e.qos.EffectiveBudget()
}

// giveUp ends a frame that is past its budget. If all of it has left, it may
// still arrive.
func (e *export) giveUp() {
	switch {
	case e.again: // the mirror counts it
	case !e.left:
		e.book.Expired++
	case e.out.Active() && e.out.Unsent():
		e.book.Sent--
		e.book.Expired++
	default:
		e.book.Lost++
	}
	e.todo, e.packing = false, wire.CodecNone
	e.out.Abort()
}

// turn reports whether there is something to send, at which priority, and how
// urgent it is among equals: the age by which it makes the mirror younger,
// squared, per byte. Sending in that order gives every channel a share of the
// link that goes with the square root of its frames' size, which makes the sum
// of all ages least.
func (e *export) turn(now time.Duration) (t turn, ok bool) {
	if e.tape != nil {
		return e.tapeTurn(now)
	}
	newest, seen, slot := e.noted.newest, e.noted.seen, e.noted.slot
	had, owed := e.before, e.owed // of the frame that the mirror has, or will have
	switch {
	case e.packing != wire.CodecNone:
		ok = e.shared.ready(e.packing)
	case e.out.Active():
		ok = e.out.Pending()
	case e.copying && !e.todo:
		ok, _ = e.copies.ended(e.awaited)
	case newest > e.loaded && now >= e.retry && now >= slot:
		ok, owed = true, e.over(seen, now)
		if !e.todo {
			had = e.captured
		}
	default:
		ok = e.todo
	}
	if !ok {
		return turn{}, false
	}
	gain := (now - had).Seconds()
	t = turn{e: e, level: e.qos.Priority.Level(), urgency: gain * gain / float64(e.size+entryOverhead)}
	if owed {
		t.level = 0
	}
	return t, true
}

// entryOverhead is about what a frame costs beside its bytes.
const entryOverhead = 25

// small reports that what comes next is likely to take little of a datagram.
func (e *export) small() bool { return e.size < smallFrame && !e.out.Active() }

const smallFrame = 300 // bytes
