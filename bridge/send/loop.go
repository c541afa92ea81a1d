package send

import (
	"context"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/pacing"
	"achbridge/wire"
)

// outbox builds the datagrams of the send loop.
type outbox struct {
	body   []byte
	packet []byte
	pieces []delivery.Piece
	stream int         // bytes that leave on a reliable stream together with the datagram
	spent  [levels]int // bytes of body and stream by priority
	queue  queue
	cargo  pacing.Cargo
	sentAt time.Duration // when frames or a probe left last; 0 means never
	asked  time.Duration // when the peer's clock was asked for; 0 means never
	look   time.Duration // when the sleeping send loop wakes up by itself; 0 means that it does not sleep
}

// Send sends the newest frames of the channels that the peer has subscribed to, and feedback on the
// peer's packets, until ctx or the session ends. It fills a datagram only when that can leave, and
// copies frames out of shared memory no earlier.
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

// fill makes the next datagram, or returns after which time to try again.
func (l *Link) fill(now time.Duration) (packet []byte, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	box := &l.box
	for _, p := range l.flight.Expire(now) {
		if p.Sub != pingSub { // the peer may hold back feedback on a ping for longer
			l.missing(p)
		}
	}
	box.body, box.pieces, box.stream, box.cargo, box.spent = box.body[:0], box.pieces[:0], 0, pacing.Whole, [levels]int{}
	report, due := l.receipts.Due(l.reportDelay())
	reminder, quiet := l.receipts.Reminder()
	quiet = quiet && reminder <= now
	l.fillQueue(&box.queue, now)
	cargo, size := l.next(box, now)
	may, when := l.control.May(now, cargo, size)
	passed := 0 // whole frames, which must wait longer than parts
	if !may && cargo == pacing.Whole {
		if passed = box.queue.leaveOutWhole(); box.queue.waiting > 0 {
			var at time.Duration
			cargo, size = l.next(box, now)
			may, at = l.control.May(now, cargo, size)
			when = min(when, at)
		}
	}
	var waits bool
	if may {
		waits = l.addFrames(box, now) || passed > 0
		l.addFill(box, now)
	} else if waits = box.queue.waiting+passed > 0; waits || l.filler.on(now) {
		box.queue.held()
		if probe, _ := l.control.May(now, pacing.Probe, size); probe {
			box.cargo = pacing.Probe
		}
	}
	l.pings.add(box, now)
	l.traffic.wait(now, waits && !may)
	waits = waits || l.filler.on(now)
	if !may || !waits {
		l.control.Waiting(now, waits)
	}
	ask := l.askClock(box, now)
	probe := box.cargo == pacing.Probe
	if len(box.body) == 0 && !probe && !quiet && !(due && report <= now) && ask > now {
		next := ask
		if waits {
			next = min(next, when)
		}
		again = l.nextLook(next, now)
		if box.sentAt != 0 && now-box.sentAt < flowing {
			again = min(again, delivery.LeastTimeout)
		}
		box.look = now + again
		return nil, again
	}
	box.look = 0
	if !probe && (due && report <= now || quiet || l.receipts.News(now)) {
		l.addFeedback(box, now)
	}
	number := l.flight.NextNumber(now)
	box.packet = wire.AppendHeader(box.packet[:0], wire.Header{Number: number, Sent: now})
	box.packet = append(box.packet, box.body...)
	l.traffic.sent += uint64(len(box.packet) + box.stream)
	if size := len(box.packet) + box.stream; len(box.pieces) > 0 || box.stream > 0 || probe {
		l.flight.Sent(now, number, size, len(box.packet), box.pieces)
		l.control.Sent(now, box.cargo, size)
		l.shares.sent(&box.queue, box.spent, size)
		box.sentAt = now
	}
	return box.packet, 0
}

// next returns the expected cargo of the next datagram, and its expected size in bytes.
func (l *Link) next(box *outbox, now time.Duration) (cargo pacing.Cargo, size int) {
	t, ok := box.queue.first()
	level := t.level
	switch {
	case !ok && !l.filler.on(now):
		return pacing.Whole, wire.MaxDatagram
	case !ok:
		level = -1 // a load test is less than the lowest priority
	case t.sub.small():
		return pacing.Whole, pacing.SmallFrame
	case t.sub.current.isWhole:
		return pacing.Whole, wire.MaxDatagram
	}
	if l.urgent(level, now) {
		return pacing.Behind, wire.MaxDatagram
	}
	return pacing.Parts, wire.MaxDatagram
}

// reportDelay returns the longest time for which either side holds back feedback on a packet.
func (l *Link) reportDelay() time.Duration { return delivery.ReportDelay(l.session.RTT()) }

// nextLook returns how long the send loop may sleep if nothing wakes it. next is the time at which
// waiting frames may leave.
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

// room returns how many bytes of a datagram entries with frames may use. The rest is kept for
// feedback.
func (l *Link) room() int {
	return min(wire.MaxDatagram, l.session.MaxDatagram()) - wire.MaxHeader - feedbackSize
}

// feedbackSize is the room for feedback in bytes. A rare report of many packets at once leaves
// arrival times out.
const feedbackSize = 100

// addFrames fills the datagram in the order of the queue: with whole frames of several channels,
// or with one part of a large frame. The first frame that does not fit ends the datagram: if later
// frames could pass it, it might never leave. addFrames reports whether something still waits.
func (l *Link) addFrames(box *outbox, now time.Duration) (waits bool) {
	room := l.room()
	for t, ok := box.queue.first(); ok; t, ok = box.queue.next() {
		before := len(box.body) + box.stream
		more := l.addTurn(box, t.sub, now, room)
		box.spent[t.level] += len(box.body) + box.stream - before
		if !more {
			_, waits = t.sub.offer(now)
			return waits || box.queue.waiting > 1
		}
	}
	return false
}

// addTurn adds the next frame or part of sub. It reports whether the datagram may take more.
func (l *Link) addTurn(box *outbox, sub *Subscription, now time.Duration, room int) (more bool) {
	switch {
	case len(box.body) > 0 && (sub.every != nil || !sub.current.isWhole && sub.current.isBusy() || sub.older.phase == waiting || len(box.body)+sub.size+wire.MaxFrameOverhead > room):
		return false // the frame stays in the ring
	case sub.every != nil:
		l.addPiece(box, sub, now)
		return box.stream == 0
	case sub.older.phase == waiting:
		l.addPart(box, sub, &sub.older, now)
		return false
	case !l.load(sub, now, room):
		// The subscription has nothing to send after all. It is tried again later.
	case !sub.current.isWhole && len(box.body) == 0:
		l.addPart(box, sub, &sub.current, now)
		return false
	case sub.current.isWhole && len(box.body)+sub.size+wire.MaxFrameOverhead <= room:
		l.addWhole(box, sub, now)
		l.wholeAt[sub.qos.Priority.Level()] = now
	}
	return true
}

// flowing is the time after a packet in which the send loop wakes up often enough to notice a loss by itself.
const flowing = time.Second

// idles reports whether the sleeping send loop has nothing to send, and wakes up soon enough by itself. l.mu must be held.
func (l *Link) idles(now time.Duration) bool {
	if l.box.look == 0 || l.filler.on(now) {
		return false
	}
	l.fillQueue(&l.box.queue, now)
	return len(l.box.queue.entries) == 0 && now+l.nextLook(l.box.look, now) >= l.box.look
}

// askClock returns when to send a datagram that asks for the peer's clock: now, later, or in the far
// future if the clock is known. Until it is known, the peer puts no command. A datagram without
// entries asks, since the peer must report it.
func (l *Link) askClock(box *outbox, now time.Duration) time.Duration {
	if _, _, known := l.clock.Offset(now); known {
		return now + time.Hour
	}
	if at := box.asked + pacing.ProbeInterval; box.asked != 0 && at > now {
		return at
	}
	box.asked = now
	return now
}
