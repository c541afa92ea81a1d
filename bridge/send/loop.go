package send

import (
	"context"
	"slices"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/pacing"
	"achbridge/wire"
)

// ProbeInterval is how often a path that went silent is tried; slowProbes is how often one whose transport
// takes no more: its window is full, and it has heard nothing since the last try.
const (
	ProbeInterval = 50 * time.Millisecond
	slowProbes    = 250 * time.Millisecond
)

// outbox is the datagram that is being made.
type outbox struct {
	body   []byte
	packet []byte
	pieces []delivery.Piece
	stream int         // bytes that leave with it on a reliable stream
	spent  [levels]int // bytes of body and stream, by priority
	queue  queue
	probed time.Duration
	heard  uint64        // packets that the transport had heard then
	asked  time.Duration // when the peer's clock was asked for; 0: never
	hollow bool          // it is a probe without entries, which asks for an answer
}

// Send sends what the peer has subscribed to, newest first, and feedback for what the peer sends,
// until ctx or the session ends. One datagram at a time: each is filled when it can leave, and a
// frame is copied out of shared memory no earlier.
func (l *Link) Send(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		packet, again := l.fill(l.now())
		if packet != nil {
			if err := l.session.SendDatagram(packet); err != nil {
				return err
			}
			continue
		}
		timer.Reset(again)
		select {
		case <-l.wake:
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fill makes the next datagram, or says in what time to look again.
func (l *Link) fill(now time.Duration) (packet []byte, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	box := &l.box
	for _, p := range l.flight.Expire(now) {
		if p.Sub != pingSub { // word of it may be held back for longer
			l.missing(p)
		}
	}
	box.body, box.pieces, box.stream, box.hollow, box.spent = box.body[:0], box.pieces[:0], 0, false, [levels]int{}
	report, due := l.receipts.Due(l.reportDelay())
	reminder, quiet := l.receipts.Reminder()
	quiet = quiet && reminder <= now
	l.fillQueue(&box.queue, now)
	may, when := l.mayFill(box, now)
	if may {
		l.addFrames(box, now)
		l.addFill(box, now)
	} else {
		box.queue.held()
	}
	l.pings.add(box, now)
	waits := slices.ContainsFunc(box.queue.entries, func(t queued) bool { _, waits := t.sub.offer(now); return waits })
	fills := l.filler.on(now)
	switch {
	case may && (waits || fills):
	case (waits || fills) && l.held:
		l.pacer.Hold(now)
	default:
		l.pacer.Free(now)
	}
	l.traffic.wait(now, waits && !may)
	ask := l.askClock(box, now)
	if len(box.body) == 0 && !box.hollow && !quiet && !(due && report <= now) && ask > now {
		next := ask
		if waits || fills {
			next = min(next, when)
		}
		again = l.nextLook(next, now)
		if box.probed != 0 && now-box.probed < flowing {
			again = min(again, delivery.LeastTimeout)
		}
		l.look = now + again
		return nil, again
	}
	l.look = 0
	if !box.hollow && (due && report <= now || quiet || l.receipts.News(now)) {
		l.addFeedback(box, now)
	}
	number := l.flight.NextNumber(now)
	box.packet = wire.AppendHeader(box.packet[:0], wire.Header{Number: number, Sent: now})
	box.packet = append(box.packet, box.body...)
	l.traffic.sent += uint64(len(box.packet) + box.stream)
	if size := len(box.packet) + box.stream; len(box.pieces) > 0 || box.stream > 0 || box.hollow {
		l.flight.Sent(now, number, size, len(box.packet), box.pieces)
		l.pacer.Sent(now, size)
		l.shares.sent(&box.queue, box.spent, size)
		box.probed, box.heard = now, l.session.Heard()
	}
	return box.packet, 0
}

// mayFill reports whether another packet of frames may leave, or from when on:
// the pacer has room, and the transport takes it without queueing. A silent path
// is only probed, without frames once half of the transport's window has left
// unanswered: the transport holds it until it hears of it, and with a full window
// only its own timer would find the path again, as late as half the cut was long.
// When word of what is in flight is overdue, the path stands still: whole frames follow
// one by one, ever further apart, and no parts that urgent frames would wait behind.
// when is in the far future if only an answer can change it.
func (l *Link) mayFill(box *outbox, now time.Duration) (may bool, when time.Duration) {
	small, need, whole, urgent := false, wire.MaxDatagram, true, false
	theirs := l.session.Window()
	if t, ok := box.queue.first(); ok {
		whole, urgent = t.sub.whole, !t.sub.whole && l.pacer.Filling(now) && l.urgent(t.level, now)
		switch {
		case t.sub.small():
			small, need = true, smallFrame
		case !t.sub.whole:
			theirs -= theirs / windowReserve
		}
	} else if l.filler.on(now) { // as a part of a frame of less than the lowest priority
		whole, urgent = false, l.pacer.Filling(now) && l.urgent(-1, now)
		theirs -= theirs / windowReserve
	}
	ours := l.window(whole, urgent, now)
	l.held = ours <= theirs
	late := l.flight.Late(now)
	smoothed, _ := l.flight.RTT()
	overdue := l.pacer.Overdue(now, late, smoothed)
	fits := l.flight.Held()+need <= theirs/2
	if l.flight.Silent(now) || !fits && l.flight.Overdue(now) {
		interval := ProbeInterval
		if l.flight.Held()+smallFrame > theirs && l.session.Heard() == box.heard {
			interval = slowProbes // a probe would wait in the transport
		}
		if when = max(box.probed+interval, l.pacer.Spaced()); now < when {
			return false, min(when, now+ProbeInterval) // look then whether it has heard
		}
		box.hollow = !fits && (len(box.queue.entries) > 0 || l.filler.on(now))
		return fits, now + interval
	}
	full := l.flight.Bytes()+need > min(theirs, ours)
	switch {
	case l.flight.Bytes() == 0:
	case whole && overdue:
		if when = l.pacer.Spaced(); now < when {
			l.held = false // it is the path that they wait for
			return false, when
		}
		if l.flight.Bytes()+need > min(theirs, 2*ours) {
			return false, now + time.Hour
		}
	case whole && full:
		return false, now + max(pacing.WordMargin-late, timerGrain) // one more may leave when word is overdue
	case full || urgent && overdue:
		return false, now + time.Hour
	}
	l.held = true
	when = l.pacer.Next(now)
	return when <= now || small && when-now < timerGrain, when
}

// window is how much the pacer lets be in flight for what goes next: a whole frame or
// parts, behind which urgent frames may have to wait.
func (l *Link) window(whole, urgent bool, now time.Duration) int {
	_, least := l.flight.RTT()
	delay := max(l.reportDelay(), l.flight.Reported())
	switch {
	case urgent:
		return l.pacer.UrgentWindow(least, delay)
	case whole && l.pacer.Filling(now):
		return l.pacer.PartWindow(least, delay) + wire.MaxDatagram
	case whole:
		return l.pacer.Window(least, delay)
	}
	return l.pacer.PartWindow(least, delay)
}

// windowReserve is the share of the transport's window that parts of large
// frames leave to whole ones, which would else wait for word of one of them.
const windowReserve = 16

// timerGrain is how late the timers of a real host fire: a small frame that
// would have to wait less leaves at once, on credit.
const timerGrain = time.Millisecond

// reportDelay is how late packets are reported at most, by either side.
func (l *Link) reportDelay() time.Duration { return max(3*time.Millisecond, l.session.RTT()/8) }

// nextLook is how long the pump may sleep if nothing wakes it; next is when
// frames that wait may leave.
func (l *Link) nextLook(next, now time.Duration) time.Duration {
	for _, sub := range l.active {
		next = min(next, sub.nextLook(now))
	}
	if at, ok := l.flight.NextExpiry(); ok {
		next = min(next, at)
	}
	if at, ok := l.receipts.Due(l.reportDelay()); ok {
		next = min(next, at)
	}
	if at, ok := l.receipts.Reminder(); ok {
		next = min(next, at)
	}
	return max(next-now, 0)
}

// room is what entries with frames may take of a datagram: feedback must
// always fit too.
func (l *Link) room() int {
	return min(wire.MaxDatagram, l.session.MaxDatagram()) - wire.MaxHeader - feedbackSize
}

// feedbackSize is what feedback takes, but for the rare report of many packets
// at once: those find no room for all their arrival times and tell fewer.
const feedbackSize = 100

// addFrames fills the datagram in the order of the queue: with frames that travel
// whole, of as many channels as fit, or with one part of a larger one. What does
// not fit ends the datagram, so that nothing passes it for ever.
func (l *Link) addFrames(box *outbox, now time.Duration) {
	room := l.room()
	for t, ok := box.queue.first(); ok; t, ok = box.queue.next() {
		before := len(box.body) + box.stream
		more := l.addTurn(box, t.sub, now, room)
		box.spent[t.level] += len(box.body) + box.stream - before
		if !more {
			return
		}
	}
}

// addTurn reports whether the datagram may take more.
func (l *Link) addTurn(box *outbox, sub *Subscription, now time.Duration, room int) (more bool) {
	switch {
	case len(box.body) > 0 && (sub.every != nil || sub.out.Active() || sub.older.out.Pending() || len(box.body)+sub.size+wire.MaxFrameOverhead > room):
		return false // it stays in the ring
	case sub.every != nil:
		l.addPiece(box, sub, now)
		return box.stream == 0
	case sub.older.out.Pending():
		l.addRepair(box, sub, now)
		return false
	case !l.load(sub, now, room):
		// It had nothing for us after all; it is tried again later.
	case !sub.whole && len(box.body) == 0:
		l.addPart(box, sub, now)
		return false
	case sub.whole && len(box.body)+sub.size+wire.MaxFrameOverhead <= room:
		l.addWhole(box, sub, now)
		l.wholeAt[sub.qos.Priority.Level()] = now
	}
	return true
}

func (l *Link) addWhole(box *outbox, sub *Subscription, now time.Duration) {
	sub.todo = false
	sub.sending()
	box.body = wire.AppendFrame(box.body, now, sub.frame(sub.data))
	box.pieces = append(box.pieces, delivery.Piece{Sub: sub.id, Seq: sub.loaded, Whole: true})
}

func (l *Link) addPart(box *outbox, sub *Subscription, now time.Duration) {
	index, ok := sub.out.Next()
	if !ok {
		return
	}
	l.pacer.Part(now)
	sub.sending()
	from := index * wire.PartLen(sub.out.Size, sub.out.Count, 0)
	to := from + wire.PartLen(sub.out.Size, sub.out.Count, index)
	box.body = wire.AppendPart(box.body, now, wire.Part{
		Frame: sub.frame(sub.data[from:to]), Size: sub.out.Size, Index: index, Count: sub.out.Count,
	})
	box.pieces = append(box.pieces, delivery.Piece{Sub: sub.id, Seq: sub.out.Seq, Index: index})
}

// flowing is for how long after a packet left the send loop looks often enough that it need not be woken for a packet that may
// get lost.
const flowing = time.Second

// idles reports whether the waiting send loop has nothing to send, and looks again soon enough. l.mu must be held.
func (l *Link) idles(now time.Duration) bool {
	if l.look == 0 || l.filler.on(now) {
		return false
	}
	l.fillQueue(&l.box.queue, now)
	return len(l.box.queue.entries) == 0 && now+l.nextLook(l.look, now) >= l.look
}

// askClock returns when to ask for the peer's clock, at once for a datagram that
// is due now: until it is known, no command may be put. A datagram without entries
// asks, since it has to be reported; the far future when there is no need.
func (l *Link) askClock(box *outbox, now time.Duration) time.Duration {
	if _, _, known := l.clock.Offset(now); known {
		return now + time.Hour
	}
	if at := box.asked + ProbeInterval; box.asked != 0 && at > now {
		return at
	}
	box.asked = now
	return now
}
