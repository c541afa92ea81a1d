package bridge

import (
	"time"

	"achbridge/bridge/pacing"
	"achbridge/bridge/rule"
	"achbridge/wire"
)

// queued is a subscription that has something to send.
type queued struct {
	sub     *subscription
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

// sent counts a datagram of size bytes that was filled in the order of the queue;
// each priority spent so much of it, and the first one pays for the rest.
func (s *shares) sent(q *queue, spent [levels]int, size int) {
	if len(q.entries) == 0 {
		return
	}
	rest := size
	for p := range s {
		rest -= spent[p]
		s[p] = max(0, s[p]-float64(spent[p]))
		if q.waits[p] && p < q.level {
			s[p] += lowerShare * float64(size)
		}
	}
	s[q.level] = max(0, s[q.level]-float64(rest))
}

// expire ends what is past its budget, unless it finishes. A frame on its way is given up when a
// newer one is there to send instead; otherwise it is the debt that is owed to
// the mirror, and goes on as such. A command is never owed. rate is that of the path.
func (sub *subscription) expire(now time.Duration, rate float64) {
	newest, seen := sub.known.Seq, sub.known.CapturedAt
	command := sub.qos.Class == rule.Command
	if sub.shared != nil && sub.copies.Share.Evicted() {
		sub.letGo(now)
	}
	if sub.older.out.Active() && (sub.arrived > sub.older.out.Seq || sub.over(sub.older.captured, now)) {
		sub.endOlder()
	}
	if sub.busy() && !sub.finishes(now, rate) && (sub.owed || sub.over(sub.captured, now)) {
		sub.owed = true
		if command || newest > sub.loaded {
			sub.giveUp()
		}
	}
	if command && !sub.busy() && newest > sub.loaded && sub.over(seen, now) {
		sub.pass(newest, sub.arrivals.PassedOver())
		sub.book.Expired++
		sub.loaded, sub.left = newest, false
		sub.request.Forget()
	}
}

// finishes reports that the large frame under way goes on although it is past its budget: a newer one would take longer
// still. That is not so if nothing of it has arrived for as long as all of it takes at rate, or if the newer one has fewer
// bytes than are left.
func (sub *subscription) finishes(now time.Duration, rate float64) bool {
	if !sub.out.Active() || !sub.left || sub.qos.EffectiveLate() == rule.LateDrop {
		return false
	}
	if sub.known.Seq <= sub.loaded {
		return true
	}
	if sub.measured != sub.known.Seq {
		sub.measured = sub.known.Seq
		sub.newestSize, _ = sub.ch.Reader().Last(nil) // the error is that it does not fit
	}
	return sub.out.Unsent() <= sub.newestSize && (now-sub.progressAt).Seconds() < float64(sub.size)/rate
}

// forgive offers the newest frame once more if it has expired as a command, now that the
// channel carries none: a mirror of states is owed the newest frame, however late.
func (sub *subscription) forgive() {
	if !sub.left && !sub.busy() && sub.arrived < sub.loaded && sub.loaded == sub.known.Seq && sub.book.Expired > 0 {
		sub.book.Expired--
		sub.loaded--
	}
}

// busy reports whether the frame that was loaded last is not settled yet.
func (sub *subscription) busy() bool {
	return sub.todo || sub.out.Active() || sub.codecPending != wire.CodecNone
}

// over reports that a frame captured then is past its budget. One that was put
// before we watched is, for all we know.
func (sub *subscription) over(captured, now time.Duration) bool {
	return sub.qos.IsPastBudget(captured, now)
}

// giveUp ends a frame that is past its budget. If all of it has left, it may
// still arrive.
func (sub *subscription) giveUp() {
	switch {
	case sub.again: // the mirror counts it
	case !sub.left:
		sub.book.Expired++
	case sub.out.Active() && sub.out.Unsent() > 0:
		sub.book.Sent--
		sub.book.Expired++
	default:
		sub.book.Lost++
	}
	sub.todo, sub.codecPending = false, wire.CodecNone
	sub.out.Abort()
}

// offer reports whether there is something to send, at which priority, and how urgent
// it is among equals: the square of the time by which it makes the mirror younger, per
// byte. Sending in that order gives every channel a share of the link in proportion to
// the square root of its frames' size, which makes the sum of all ages least.
func (sub *subscription) offer(now time.Duration) (t queued, ok bool) {
	if sub.every != nil {
		return sub.offerInOrder(now)
	}
	newest, seen, slot := sub.known.Seq, sub.known.CapturedAt, sub.known.SlotAt
	had, owed := sub.before, sub.owed // of the frame that the mirror has, or will have
	switch {
	case sub.older.out.Pending():
		ok = true
	case sub.codecPending != wire.CodecNone:
		ok = sub.shared.IsCompressed(sub.codecPending)
	case sub.out.Active() && !sub.overlaps():
		ok = sub.out.Pending()
	case sub.request.Copying() && !sub.todo:
		ok = sub.request.Ready(sub.copies)
	case newest > sub.loaded && now >= sub.retry && now >= slot:
		ok, owed = true, sub.over(seen, now)
		if !sub.todo {
			had = sub.captured
		}
	default:
		ok = sub.todo
	}
	if !ok {
		return queued{}, false
	}
	gain := (now - had).Seconds()
	t = queued{sub: sub, level: sub.qos.Priority.Level(), urgency: gain * gain / float64(sub.size+entryOverhead)}
	if owed {
		t.level = 0
	}
	return t, true
}

// entryOverhead is about what a frame costs beside its bytes.
const entryOverhead = 25

// nextLook is when something changes here by itself, in the far future if nothing
// does.
func (sub *subscription) nextLook(now time.Duration) time.Duration {
	next := now + time.Hour
	if sub.known.Seq > sub.loaded {
		over := sub.captured + sub.qos.EffectiveBudget()
		for _, at := range [...]time.Duration{sub.retry, sub.known.SlotAt, over} {
			if at > now {
				next = min(next, at)
			}
		}
	}
	return next
}

// small reports that what comes next is likely to take little of a datagram.
func (sub *subscription) small() bool { return sub.size < pacing.SmallFrame && !sub.out.Active() }

// owe sends the newest frame once more, past its budget or not: the mirror has
// only frame have. If there is something newer, that is on its way by itself.
func (sub *subscription) Owe(have uint64) {
	newest := sub.arrivals.Newest().Seq
	if have >= sub.loaded || newest > sub.loaded || sub.busy() || sub.qos.Class == rule.Command || sub.every != nil {
		return
	}
	if sub.left && sub.data == nil { // its memory was wanted for others
		sub.book.Sent--
		sub.left, sub.loaded, sub.arrived = false, newest-1, have
		return
	}
	if !sub.left {
		if sub.book.Reopen(newest) { // the mirror had it when it subscribed, and has lost it since
			sub.loaded, sub.arrived = newest-1, have
		}
		return
	}
	sub.owed, sub.again = true, sub.arrived >= sub.loaded
	sub.arrived = min(sub.arrived, have)
	if sub.whole {
		sub.todo = true
		return
	}
	sub.out.Begin(sub.loaded, sub.size, sub.out.Count)
}

// urgent reports that whole frames of a priority above level have left lately.
func (l *link) urgent(level int, now time.Duration) bool {
	for _, at := range l.wholeAt[level+1:] {
		if at != 0 && now-at < urgentTime {
			return true
		}
	}
	return false
}

// urgentTime is for how long a frame that left counts as one of those to come.
const urgentTime = time.Second
