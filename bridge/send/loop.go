package send

import (
	"context"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/pacing"
	"achbridge/wire"
)

// datagramBuilder builds the datagrams of the send loop.
type datagramBuilder struct {
	body         []byte
	packet       []byte
	pieces       []delivery.Piece
	stream       int         // bytes that leave on a reliable stream together with the datagram
	spent        [levels]int // bytes of body and stream by priority
	queue        queue
	cargo        pacing.Cargo
	sentAt       time.Duration // when frames or a probe were last sent; 0 means never
	clockAskedAt time.Duration // when the peer's clock was last queried; 0 means never
	wakeAt       time.Duration // when the sleeping send loop wakes up by itself; 0 means that it does not sleep
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
	builder := &l.builder
	for _, p := range l.sentPackets.Expire(now) {
		if p.Sub != pingSub { // the peer may hold back feedback on a ping for longer
			l.missing(p)
		}
	}
	builder.body, builder.pieces, builder.stream, builder.cargo, builder.spent = builder.body[:0], builder.pieces[:0], 0, pacing.Whole, [levels]int{}
	report, due := l.receivedPackets.Due(l.reportDelay())
	reminder, quiet := l.receivedPackets.Reminder(l.session.RTT())
	quiet = quiet && reminder <= now
	l.fillQueue(&builder.queue, now)
	cargo, size := l.next(builder, now)
	may, when := l.control.May(now, cargo, size)
	passed := 0 // whole frames, which must wait longer than parts
	if !may && cargo == pacing.Whole {
		if passed = builder.queue.leaveOutWhole(); builder.queue.waiting > 0 {
			var at time.Duration
			cargo, size = l.next(builder, now)
			may, at = l.control.May(now, cargo, size)
			when = min(when, at)
		}
	}
	var waits bool
	if may {
		waits = l.addFrames(builder, now) || passed > 0
		l.addFill(builder, now)
	} else if waits = builder.queue.waiting+passed > 0; waits || l.loadGenerator.on(now) {
		builder.queue.held()
		if probe, _ := l.control.May(now, pacing.Probe, size); probe {
			builder.cargo = pacing.Probe
		}
	}
	l.pings.add(builder, now)
	l.traffic.wait(now, waits && !may)
	waits = waits || l.loadGenerator.on(now)
	if !may || !waits {
		l.control.Waiting(now, waits)
	}
	ask := l.askClock(builder, now)
	probe := builder.cargo == pacing.Probe
	if len(builder.body) == 0 && !probe && !quiet && !(due && report <= now) && ask > now {
		next := ask
		if waits {
			next = min(next, when)
		}
		again = l.nextPoll(next, now)
		if builder.sentAt != 0 && now-builder.sentAt < flowing {
			again = min(again, delivery.LeastTimeout)
		}
		builder.wakeAt = now + again
		return nil, again
	}
	builder.wakeAt = 0
	if !probe && (due && report <= now || quiet || l.receivedPackets.News(now)) {
		l.addFeedback(builder, now)
	}
	number := l.sentPackets.NextNumber(now)
	builder.packet = wire.AppendHeader(builder.packet[:0], wire.Header{Number: number, Sent: now})
	builder.packet = append(builder.packet, builder.body...)
	l.traffic.sent += uint64(len(builder.packet) + builder.stream)
	if size := len(builder.packet) + builder.stream; len(builder.pieces) > 0 || builder.stream > 0 || probe {
		l.sentPackets.Sent(now, number, size, len(builder.packet), builder.pieces)
		l.control.Sent(now, builder.cargo, size)
		l.shares.sent(&builder.queue, builder.spent, size)
		builder.sentAt = now
	}
	return builder.packet, 0
}

// next returns the expected cargo of the next datagram, and its expected size in bytes.
func (l *Link) next(builder *datagramBuilder, now time.Duration) (cargo pacing.Cargo, size int) {
	t, ok := builder.queue.first()
	level := t.level
	switch {
	case !ok && !l.loadGenerator.on(now):
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

// nextPoll returns how long the send loop may sleep if nothing wakes it. next is the time at which
// waiting frames may leave.
func (l *Link) nextPoll(next, now time.Duration) time.Duration {
	for _, sub := range l.active {
		next = min(next, sub.nextPoll(now))
	}
	if at, ok := l.sentPackets.NextExpiry(); ok {
		next = min(next, at)
	}
	if at, ok := l.receivedPackets.Due(l.reportDelay()); ok {
		next = min(next, at)
	}
	if at, ok := l.receivedPackets.Reminder(l.session.RTT()); ok {
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
func (l *Link) addFrames(builder *datagramBuilder, now time.Duration) (waits bool) {
	room := l.room()
	for t, ok := builder.queue.first(); ok; t, ok = builder.queue.next() {
		before := len(builder.body) + builder.stream
		more := l.addTurn(builder, t.sub, now, room)
		builder.spent[t.level] += len(builder.body) + builder.stream - before
		if !more {
			_, waits = t.sub.offer(now)
			return waits || builder.queue.waiting > 1
		}
	}
	return false
}

// addTurn adds the next frame or part of sub. It reports whether the datagram may take more.
func (l *Link) addTurn(builder *datagramBuilder, sub *Subscription, now time.Duration, room int) (more bool) {
	switch {
	case len(builder.body) > 0 && (sub.every != nil || !sub.current.isWhole && sub.current.isBusy() || sub.older.phase == waiting || len(builder.body)+sub.size+wire.MaxFrameOverhead > room):
		return false // the frame stays in the ring
	case sub.every != nil:
		l.addPiece(builder, sub, now)
		return builder.stream == 0
	case sub.older.phase == waiting:
		l.addPart(builder, sub, &sub.older, now)
		return false
	case !l.load(sub, now, room):
		// The subscription has nothing to send after all. It is tried again later.
	case !sub.current.isWhole && len(builder.body) == 0:
		l.addPart(builder, sub, &sub.current, now)
		return false
	case sub.current.isWhole && len(builder.body)+sub.size+wire.MaxFrameOverhead <= room:
		l.addWhole(builder, sub, now)
		l.wholeAt[sub.qos.Priority.Level()] = now
	}
	return true
}

// flowing is the time after a packet in which the send loop wakes up often enough to notice a loss by itself.
const flowing = time.Second

// idles reports whether the sleeping send loop has nothing to send, and wakes up soon enough by itself. l.mu must be held.
func (l *Link) idles(now time.Duration) bool {
	if l.builder.wakeAt == 0 || l.loadGenerator.on(now) {
		return false
	}
	l.fillQueue(&l.builder.queue, now)
	return len(l.builder.queue.entries) == 0 && now+l.nextPoll(l.builder.wakeAt, now) >= l.builder.wakeAt
}

// askClock returns when to send a datagram that asks for the peer's clock: now, later, or in the far
// future if the clock is known. Until it is known, the peer puts no command. A datagram without
// entries asks, since the peer must report it.
func (l *Link) askClock(builder *datagramBuilder, now time.Duration) time.Duration {
	if _, _, known := l.clock.Offset(now); known {
		return now + time.Hour
	}
	if at := builder.clockAskedAt + pacing.ProbeInterval; builder.clockAskedAt != 0 && at > now {
		return at
	}
	builder.clockAskedAt = now
	return now
}
