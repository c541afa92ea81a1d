package bridge

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"achbridge/bridge/fresh"
	"achbridge/localach"
	"achbridge/wire"
)

// probeInterval is how often a path that went silent is tried.
const probeInterval = 50 * time.Millisecond

// outbox is the pump's own memory: the datagram that is being made.
type outbox struct {
	body   []byte
	packet []byte
	pieces []fresh.Piece
	turn   int // whose turn it is among equals
	probed time.Duration
}

// pump sends what the peer has subscribed to, newest first, and feedback for
// what the peer sends. One datagram at a time: each is filled when it can
// leave, and a frame is copied out of shared memory no earlier.
func (l *link) pump(ctx context.Context) error {
	box := &outbox{}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		packet, again := l.fill(box, l.n.now())
		if packet != nil {
			if err := l.s.SendDatagram(packet); err != nil {
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
func (l *link) fill(box *outbox, now time.Duration) (packet []byte, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.flight.Expire(now) {
		l.missing(p)
	}
	box.body, box.pieces = box.body[:0], box.pieces[:0]
	report, due := l.receipts.Due()
	reminder, quiet := l.receipts.Reminder()
	quiet = quiet && reminder <= now
	if l.mayFill(box, now) {
		l.addFrames(box, now)
	}
	if len(box.body) == 0 && !quiet && !(due && report <= now) {
		return nil, l.nextLook(box, now)
	}
	if due || quiet || l.receipts.News(now) {
		l.addFeedback(box, now)
	}
	number := l.flight.NextNumber(now)
	box.packet = wire.AppendHeader(box.packet[:0], wire.Header{Number: number, Sent: now})
	box.packet = append(box.packet, box.body...)
	if len(box.pieces) > 0 {
		l.flight.Sent(now, number, len(box.packet), box.pieces)
		box.probed = now
	}
	return box.packet, 0
}

// mayFill reports whether another packet of frames may leave: the transport
// takes it without queueing, or nothing at all is on its way. A silent path
// is only probed.
func (l *link) mayFill(box *outbox, now time.Duration) bool {
	if l.flight.Silent(now) {
		return now-box.probed >= probeInterval
	}
	return l.flight.Bytes() == 0 || l.flight.Bytes()+wire.MaxDatagram <= l.s.Window()
}

// nextLook is how long the pump may sleep if nothing wakes it.
func (l *link) nextLook(box *outbox, now time.Duration) time.Duration {
	next := now + time.Hour
	if at, ok := l.flight.NextExpiry(); ok {
		next = min(next, at)
	}
	if at, ok := l.receipts.Due(); ok {
		next = min(next, at)
	}
	if at, ok := l.receipts.Reminder(); ok {
		next = min(next, at)
	}
	if probe := box.probed + probeInterval; probe > now && l.flight.Silent(now) {
		next = min(next, probe)
	}
	return max(next-now, 0)
}

// room is what entries with frames may take of a datagram: feedback must
// always fit too.
func (l *link) room() int {
	return min(wire.MaxDatagram, l.s.MaxDatagram()) - wire.MaxHeader - feedbackSize
}

// feedbackSize is the most that our feedback takes: without arrivals and gaps.
const feedbackSize = 40

// addFrames fills the datagram: first frames that travel whole, of as many
// channels as fit, then parts of larger ones. Among equals they take turns.
func (l *link) addFrames(box *outbox, now time.Duration) {
	n, room := len(l.order), l.room()
	box.turn++
	for i := range n {
		if e := l.order[(box.turn+i)%n]; e.ready(room) && e.out.Count == 1 && len(box.body)+e.out.Size+wire.MaxFrameOverhead <= room {
			l.addWhole(box, e, now)
		}
	}
	for i := range n {
		if e := l.order[(box.turn+i)%n]; e.out.Count > 1 && e.out.Pending() {
			if len(box.body) == 0 {
				l.addPart(box, e, now)
			}
		}
	}
}

func (l *link) addWhole(box *outbox, e *export, now time.Duration) {
	if _, ok := e.out.Next(); !ok {
		return
	}
	box.body = wire.AppendFrame(box.body, now, wire.Frame{
		Sub: e.id, Epoch: uint32(e.epoch), Seq: e.out.Seq, Captured: e.captured, Data: e.buf[:e.out.Size],
	})
	box.pieces = append(box.pieces, fresh.Piece{Sub: e.id, Seq: e.out.Seq})
}

func (l *link) addPart(box *outbox, e *export, now time.Duration) {
	index, ok := e.out.Next()
	if !ok {
		return
	}
	from := index * wire.PartLen(e.out.Size, e.out.Count, 0)
	to := from + wire.PartLen(e.out.Size, e.out.Count, index)
	box.body = wire.AppendPart(box.body, now, wire.Part{
		Frame: wire.Frame{Sub: e.id, Epoch: uint32(e.epoch), Seq: e.out.Seq, Captured: e.captured, Data: e.buf[from:to]},
		Size:  e.out.Size, Index: index, Count: e.out.Count,
	})
	box.pieces = append(box.pieces, fresh.Piece{Sub: e.id, Seq: e.out.Seq, Index: index})
}

func (l *link) addFeedback(box *outbox, now time.Duration) {
	newest, bitmap, arrived, ok := l.receipts.Report(now)
	if ok {
		box.body = wire.AppendFeedback(box.body, wire.Feedback{Newest: newest, Bitmap: bitmap, Arrived: arrived})
	}
}

// missing needs l.mu.
func (l *link) missing(p fresh.Piece) {
	if e := l.exports[p.Sub]; e != nil {
		e.missing(p)
	}
}

// feedback takes a report of the peer about our packets. Needs l.mu.
func (l *link) feedback(now, sent time.Duration, f wire.Feedback) {
	if at, ok := l.flight.SentAt(f.Newest); ok {
		l.clock.Sample(at, f.Arrived, sent, now)
	}
	arrived, lost := l.flight.Feedback(now, f.Newest, f.Bitmap)
	for _, p := range arrived {
		if e := l.exports[p.Sub]; e != nil {
			e.delivered(p)
		}
	}
	for _, p := range lost {
		l.missing(p)
	}
}

func isShort(err error) bool      { return errors.Is(err, io.ErrShortBuffer) }
func isNothingNew(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
func isBusy(err error) bool       { return errors.Is(err, localach.ErrBusy) }
