package send

import (
	"errors"
	"io"
	"time"

	"achbridge/bridge/ring"
	"achbridge/bridge/transport/session"
	"achbridge/localach"
	"achbridge/wire"
)

// everySender is the sending side of a subscription in mode every: it sends all frames, in
// order, over a reliable stream of its own. The pump grants it one piece at a time, so that
// the stream is paced like all other traffic. A frame is read from the ring only when there
// is room for it, so that the ring stays the only queue. It belongs to the pump, under the
// link's mu. Only the goroutine of write writes to the stream.
type everySender struct {
	r      *localach.Reader
	stream session.SendStream // nil when it could not be opened
	pieces chan []byte        // to the goroutine of write; room for one piece
	done   chan struct{}
	frame  []byte // read last
	record []byte // encoded and not all granted yet
	rest   []byte // part of record that is not granted yet
	tail   []byte // part of a large frame behind record that is not granted yet
	busy   bool   // a piece is being written
	large  largeRead
	err    error // why the stream has ended
}

// streamPiece is how many bytes of a stream leave together with one datagram, so that both
// fit one packet.
const streamPiece = 1100

// maxCompressed is the largest frame that is packed while the pump waits, in bytes.
const maxCompressed = 64 << 10

// newEverySender prepares the stream of a subscription.
func newEverySender(r Request) *everySender {
	s := &everySender{r: r.Channel.ReaderAfter(r.Have), pieces: make(chan []byte, 1), done: make(chan struct{})}
	s.large.share, s.large.turn = r.Copies.Share, r.Copies.Large()
	s.frame = make([]byte, min(r.Channel.Geometry().FrameSize, ring.CopiedInline))
	s.record = wire.AppendStreamHeader(nil, wire.StreamHeader{Sub: r.ID, Epoch: r.Channel.Epoch()})
	s.rest = s.record
	return s
}

// write writes the pieces that the pump grants until the subscription or the session ends;
// written is called after each.
func (s *everySender) write(done <-chan struct{}, written func(error)) {
	for {
		select {
		case piece := <-s.pieces:
			_, err := s.stream.Write(piece)
			written(err)
			if err != nil {
				return
			}
		case <-s.done:
			return
		case <-done:
			return
		}
	}
}

// stop ends the stream. It is called once.
func (s *everySender) stop() {
	close(s.done)
	s.large.end()
	if s.stream != nil {
		s.stream.Reset()
	}
}

// openStream opens the stream of sub. Needs l.mu.
func (l *Link) openStream(sub *Subscription) {
	s, err := l.session.OpenStream()
	if err != nil {
		sub.source.problem, sub.every.err = err, err
		return
	}
	sub.every.stream = s
	l.cfg.Spawn(func() {
		sub.every.write(l.session.Done(), func(err error) {
			l.mu.Lock()
			sub.every.busy, sub.every.err = false, err
			if err != nil {
				sub.source.problem = err
			}
			l.mu.Unlock()
			l.Wake()
		})
	})
}

// offerInOrder is offer for mode every. Its urgency is the age of the frame it sends next.
func (sub *Subscription) offerInOrder(now time.Duration) (t queued, ok bool) {
	if sub.every.busy || sub.every.err != nil || !sub.every.waits() && (sub.lastCollected.Seq <= sub.loaded || now < sub.source.retryAt || sub.every.large.reading()) {
		return queued{}, false
	}
	gain := (now - sub.current.captured).Seconds()
	return queued{sub: sub, level: sub.qos.Priority.Level(), urgency: gain * gain / float64(sub.size+entryOverhead)}, true
}

// addPiece grants the stream of sub its next piece, and puts a mark into this datagram.
// Acknowledging the mark acknowledges the piece.
func (l *Link) addPiece(builder *datagramBuilder, sub *Subscription, now time.Duration) {
	defer l.reportProblem(sub)
	s := sub.every
	for len(s.rest) < streamPiece && len(s.tail) == 0 && l.nextRecord(sub, now) {
	}
	from := &s.rest
	if len(s.rest) == 0 {
		from = &s.tail
	}
	piece := (*from)[:min(len(*from), streamPiece)]
	if len(piece) == 0 {
		return
	}
	*from, s.busy = (*from)[len(piece):], true
	if !s.waits() && s.large.state == largeNone {
		s.large.forget()
	}
	s.pieces <- piece
	builder.body = wire.AppendMark(builder.body, wire.Mark{Sub: sub.id, Bytes: len(piece)})
	builder.stream = len(piece)
}

// waits reports whether encoded bytes are not granted yet.
func (s *everySender) waits() bool { return len(s.rest) > 0 || len(s.tail) > 0 }

// nextRecord encodes the next frame of the ring after the bytes that wait to be granted. A
// large frame is read in a goroutine, which wakes the pump afterwards.
func (l *Link) nextRecord(sub *Subscription, now time.Duration) bool {
	if sub.source.arrivals.Newest().Seq <= sub.loaded || now < sub.source.retryAt || sub.every.large.reading() {
		return false
	}
	s := sub.every
	if s.large.state == largeReady {
		return sub.nextLarge(now)
	}
	n, err := s.r.TryNextOldest(s.frame)
	if errors.Is(err, io.ErrShortBuffer) && n <= ring.CopiedInline {
		s.frame = make([]byte, n)
		n, err = s.r.TryNextOldest(s.frame)
	}
	if errors.Is(err, io.ErrShortBuffer) && n <= wire.MaxFrame {
		l.readLarge(sub)
		return false
	}
	if !sub.played(ring.Refused(s.r, n, err), n, now) {
		return false
	}
	data, codec := s.frame[:n], wire.CodecNone
	if n <= maxCompressed {
		data, codec = sub.compression.Compress(data, l.control.Rate())
	}
	sub.addRecord(wire.Record{Codec: codec, RawSize: n, Data: data}, len(data))
	return true
}

// nextLarge encodes the large frame that was read, which stays where it is.
func (sub *Subscription) nextLarge(now time.Duration) bool {
	s := sub.every
	n, err := s.large.take()
	if !sub.played(err, n, now) {
		return false
	}
	sub.addRecord(wire.Record{}, n)
	s.tail = s.large.frame[:n]
	return true
}

// played counts the frame that was read, or handles err, the error of reading it. It returns
// false if there is nothing to send.
func (sub *Subscription) played(err error, size int, now time.Duration) bool {
	r := sub.every.r
	if _, ok := errors.AsType[*ring.Refusal](err); ok {
		sub.counters.Passed(r.Seq(), r.Missed())
		sub.loaded, sub.copied, sub.source.problem = r.Seq(), r.Seq(), err
		return false
	}
	if sub.failed(err, now) {
		return false
	}
	sub.counters.Recorded(r.Seq(), r.Missed())
	sub.current.captured, sub.loaded, sub.copied, sub.size = sub.source.arrivals.CapturedAt(r.Seq()), r.Seq(), r.Seq(), size
	return true
}

// addRecord appends r, of size bytes, to the bytes that wait to be granted.
func (sub *Subscription) addRecord(r wire.Record, size int) {
	s := sub.every
	r.Seq, r.Captured, r.Missed = s.r.Seq(), sub.current.captured, s.r.Missed()
	s.record = s.record[:copy(s.record, s.rest)]
	s.record = append(wire.AppendRecordHead(s.record, r, size), r.Data...)
	s.rest = s.record
}
