package send

import (
	"time"

	"achbridge/bridge/pacing"
	"achbridge/bridge/rule"
	"achbridge/wire"
)

// queued is a subscription that has something to send.
type queued struct {
	sub     *Subscription
	level   int     // its priority now: 7 goes first
	rank    int     // level; above all levels while the minimum share of the level is due
	urgency float64 // order within the same rank
}

const (
	levels     = rule.Levels
	lowerShare = 0.05 // part of the bytes that each waiting lower priority gets at least
	shareDue   = wire.MaxDatagram
)

// shares counts the bytes that priorities have earned while they waited behind others.
type shares [levels]float64

// due returns the waiting priority that has earned most, or -1 if none has earned a packet.
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
// spent has the bytes of each priority, and the first priority pays for the rest.
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

// expire handles frames past their budget. A large frame that has begun to leave may finish (finishes).
// Any other frame on its way is given up if there is a newer one, and otherwise goes on as the last value
// for the mirror. Commands are always given up. rate is that of the path, in bytes a second.
func (sub *Subscription) expire(now time.Duration, rate float64) {
	f, command := &sub.current, sub.qos.Class == rule.Command
	if f.shared != nil && sub.source.copies.Share.Evicted() {
		sub.letGo(now)
	}
	if sub.older.isBusy() && (sub.arrived > sub.older.seq || sub.over(sub.older.captured, now)) {
		sub.endOlder()
	}
	if f.isBusy() && !sub.finishes(now, rate) && (f.isLastValue || sub.over(f.captured, now)) {
		f.isLastValue = true
		if command || sub.isNewer() {
			sub.giveUp()
		}
	}
	if command && !f.isBusy() && sub.isNewer() && sub.over(sub.lastCollected.CapturedAt, now) {
		sub.skip()
	}
}

// finishes reports whether a large frame that has begun to leave goes on although it is past its budget, since a newer one
// would take longer still. That is not so if nothing of it has arrived for as long as all of it takes at rate, or if the newer
// one has fewer bytes than are left.
func (sub *Subscription) finishes(now time.Duration, rate float64) bool {
	f := &sub.current
	if f.isWhole || f.phase == compressing || !f.hasLeft || sub.qos.EffectiveLate() == rule.LateDrop {
		return false
	}
	return !sub.isNewer() ||
		f.parts.Unsent() <= sub.source.sizeOf(sub.lastCollected.Seq) && (now-f.progressAt).Seconds() < float64(f.parts.Size)/rate
}

// isNewer reports whether the ring has a newer frame than the one that was loaded last.
func (sub *Subscription) isNewer() bool { return sub.lastCollected.Seq > sub.loaded }

// skip counts the newest frame, a command past its budget, as expired.
func (sub *Subscription) skip() {
	sub.pass(sub.lastCollected.Seq, sub.source.arrivals.PassedOver())
	sub.counters.Expired++
	sub.loaded = sub.lastCollected.Seq
	sub.current.skipTo(sub.loaded)
	sub.source.request.Forget()
}

// forgive offers the newest frame again if it has expired as a command. The channel carries no commands any more, and
// a mirror of states gets the last value however late.
func (sub *Subscription) forgive() {
	if f := &sub.current; !f.hasLeft && !f.isBusy() && sub.arrived < sub.loaded && sub.loaded == sub.lastCollected.Seq && sub.counters.Expired > 0 {
		sub.counters.Expired--
		sub.loaded--
	}
}

// over reports whether a frame is past its budget. A frame of unknown capture time is.
func (sub *Subscription) over(captured, now time.Duration) bool {
	return sub.qos.IsPastBudget(captured, now)
}

// giveUp ends the current frame, which is past its budget. If all of it has left, it may still arrive.
func (sub *Subscription) giveUp() {
	switch f := &sub.current; {
	case f.isRepeat: // the mirror counts it
	case !f.hasLeft:
		sub.counters.Expired++
	case f.parts.Unsent() > 0:
		sub.counters.Sent--
		sub.counters.Expired++
	default:
		sub.counters.Lost++
	}
	sub.current.settle()
}

// offer reports whether there is a frame to send, its priority, and its urgency among equal
// priorities. The urgency is the square of the time by which the frame makes the mirror younger, per
// byte. Sending in that order gives every channel a share of the link in proportion to
// the square root of its frames' size, which makes the sum of all ages least.
func (sub *Subscription) offer(now time.Duration) (t queued, ok bool) {
	if sub.every != nil {
		return sub.offerInOrder(now)
	}
	f, source := &sub.current, &sub.source
	had, isLastValue := f.before, f.isLastValue // for the frame that the mirror has or will have
	phase := f.phase
	switch {
	case sub.older.phase == waiting:
		ok = true
	case phase == compressing:
		ok = f.shared.IsCompressed(f.wantedCodec)
	case !f.isWhole && (phase == waiting || phase == sent && !sub.overlaps()):
		ok = phase == waiting
	case source.request.Copying() && phase != waiting:
		ok = source.request.Ready(source.copies)
	case sub.isNewer() && now >= source.retryAt && now >= sub.lastCollected.SlotAt:
		ok, isLastValue = true, sub.over(sub.lastCollected.CapturedAt, now)
		if phase != waiting {
			had = f.captured
		}
	default:
		ok = phase == waiting
	}
	if !ok {
		return queued{}, false
	}
	gain := (now - had).Seconds()
	t = queued{sub: sub, level: sub.qos.Priority.Level(), urgency: gain * gain / float64(sub.size+entryOverhead)}
	if isLastValue {
		t.level = 0
	}
	return t, true
}

// entryOverhead is about the number of bytes that a frame costs in addition to its data.
const entryOverhead = 25

// nextPoll returns the next time at which sub may have something to send without an event, or a time in the far
// future.
func (sub *Subscription) nextPoll(now time.Duration) time.Duration {
	next := now + time.Hour
	if sub.isNewer() {
		over := sub.current.captured + sub.qos.EffectiveBudget()
		for _, at := range [...]time.Duration{sub.source.retryAt, sub.lastCollected.SlotAt, over} {
			if at > now {
				next = min(next, at)
			}
		}
	}
	return next
}

// small reports whether the next frame is likely to take little of a datagram.
func (sub *Subscription) small() bool {
	return sub.size < pacing.SmallFrame && (sub.current.isWhole || !sub.current.isBusy())
}

// resend needs the link's mu; see Resend.
func (sub *Subscription) resend(have uint64) {
	f, newest := &sub.current, sub.source.arrivals.Newest().Seq
	if have >= sub.loaded || newest > sub.loaded || f.isBusy() || sub.qos.Class == rule.Command || sub.every != nil {
		return
	}
	switch {
	case f.hasLeft && f.data == nil: // the frame's memory was taken for other frames
		sub.counters.Sent--
		f.hasLeft, sub.loaded, sub.arrived = false, newest-1, have
	case f.hasLeft:
		f.repeat(sub.arrived >= sub.loaded)
		sub.arrived = min(sub.arrived, have)
	case sub.counters.Reopen(newest): // the mirror had it when it subscribed, and has lost it since
		sub.loaded, sub.arrived = newest-1, have
	}
}

// urgent reports whether whole frames of a priority above level have left lately.
func (l *Link) urgent(level int, now time.Duration) bool {
	for _, at := range l.wholeAt[level+1:] {
		if at != 0 && now-at < urgentTime {
			return true
		}
	}
	return false
}

// urgentTime is for how long a frame that left counts as one of those to come.
const urgentTime = time.Second
