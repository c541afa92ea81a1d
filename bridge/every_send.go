package bridge

import (
	"errors"
	"io"
	"time"

	"achbridge/bridge/transport"
	"achbridge/localach"
	"achbridge/wire"
)

// tape is the sending side of a subscription in mode every: all frames, in order,
// over a reliable stream of its own. The pump grants it one piece at a time, so
// that what goes over the stream is paced like everything else, and a frame is
// read from the ring when there is room for it: the ring stays the only queue. It
// belongs to the pump, under the link's mu; play alone writes to the stream.
type tape struct {
	r      *localach.Reader
	stream transport.SendStream // nil when there could be none
	pieces chan []byte          // to play; has room for the one that may be on its way
	ended  chan struct{}
	frame  []byte // read last
	record []byte // encoded and not all granted yet
	rest   []byte // of record, not granted yet
	tail   []byte // of a large frame, behind record, not granted yet
	busy   bool   // play has a piece
	large  largeRead
	err    error // why the stream has ended
}

// tapePiece is how much of a stream leaves with one datagram: with that, it fits
// one packet.
const tapePiece = 1100

// mostPacked is the largest frame that is packed while the pump waits, in bytes.
const mostPacked = 64 << 10

// newTape prepares the stream of subscription id, whose mirror has frame have.
func newTape(id uint32, c *local, have uint64) *tape {
	t := &tape{r: c.ch.ReaderAfter(have), pieces: make(chan []byte, 1), ended: make(chan struct{})}
	t.large.stock, t.large.huge = c.copies.stock, c.copies.huge
	t.frame = make([]byte, min(c.ch.Geometry().FrameSize, copiedAtOnce))
	t.record = wire.AppendStreamHeader(nil, wire.StreamHeader{Sub: id, Epoch: c.ch.Epoch()})
	t.rest = t.record
	return t
}

// play writes the pieces that the pump grants until the tape or the session ends;
// written is called after each.
func (t *tape) play(done <-chan struct{}, written func(error)) {
	for {
		select {
		case piece := <-t.pieces:
			_, err := t.stream.Write(piece)
			written(err)
			if err != nil {
				return
			}
		case <-t.ended:
			return
		case <-done:
			return
		}
	}
}

// stop ends the stream. It is called once.
func (t *tape) stop() {
	close(t.ended)
	t.large.end()
	if t.stream != nil {
		t.stream.Reset()
	}
}

// playTape opens the stream of e. Needs l.mu.
func (l *link) playTape(e *export) {
	s, err := l.s.OpenStream()
	if err != nil {
		e.trouble, e.tape.err = err, err
		return
	}
	e.tape.stream = s
	l.n.work.Go(func() {
		e.tape.play(l.s.Done(), func(err error) {
			l.mu.Lock()
			e.tape.busy, e.tape.err = false, err
			if err != nil {
				e.trouble = err
			}
			l.mu.Unlock()
			l.awake()
		})
	})
}

// tapeTurn is turn for mode every. It is urgent as the age of what it sends next.
func (e *export) tapeTurn(now time.Duration) (t turn, ok bool) {
	if e.tape.busy || e.tape.err != nil || !e.tape.waits() && (e.noted.newest <= e.loaded || now < e.retry || e.tape.large.reading()) {
		return turn{}, false
	}
	gain := (now - e.captured).Seconds()
	return turn{e: e, level: e.qos.Priority.Level(), urgency: gain * gain / float64(e.size+entryOverhead)}, true
}

// addTape grants the stream of e its next piece, which leaves with this datagram:
// word of the one is word of the other.
func (l *link) addTape(box *outbox, e *export, now time.Duration) {
	defer l.gripe(e)
	t := e.tape
	for len(t.rest) < tapePiece && len(t.tail) == 0 && l.nextRecord(e, now) {
	}
	from := &t.rest
	if len(t.rest) == 0 {
		from = &t.tail
	}
	piece := (*from)[:min(len(*from), tapePiece)]
	if len(piece) == 0 {
		return
	}
	*from, t.busy = (*from)[len(piece):], true
	if !t.waits() && t.large.state == largeNone {
		t.large.forget()
	}
	t.pieces <- piece
	box.body = wire.AppendMark(box.body, wire.Mark{Sub: e.id, Bytes: len(piece)})
	box.stream = len(piece)
}

// waits reports that something is encoded and not granted yet.
func (t *tape) waits() bool { return len(t.rest) > 0 || len(t.tail) > 0 }

// nextRecord encodes the next frame of the ring behind what waits to be granted. A
// large one is read in a goroutine, after which the pump is woken.
func (l *link) nextRecord(e *export, now time.Duration) bool {
	if e.note.read().newest <= e.loaded || now < e.retry || e.tape.large.reading() {
		return false
	}
	t := e.tape
	if t.large.state == largeReady {
		return e.nextLarge(now)
	}
	n, err := t.r.TryNextOldest(t.frame)
	if errors.Is(err, io.ErrShortBuffer) && n <= copiedAtOnce {
		t.frame = make([]byte, n)
		n, err = t.r.TryNextOldest(t.frame)
	}
	if errors.Is(err, io.ErrShortBuffer) && n <= wire.MaxFrame {
		l.readLarge(e)
		return false
	}
	if !e.played(refused(t.r, n, err), n, now) {
		return false
	}
	data, codec := t.frame[:n], wire.CodecNone
	if n <= mostPacked {
		data, codec = e.packer.pack(data, l.pacer.Rate())
	}
	e.addRecord(wire.Record{Codec: codec, RawSize: n, Data: data}, len(data))
	return true
}

// nextLarge encodes the large frame that was read, which stays where it is.
func (e *export) nextLarge(now time.Duration) bool {
	t := e.tape
	n, err := t.large.take()
	if !e.played(err, n, now) {
		return false
	}
	e.addRecord(wire.Record{}, n)
	t.tail = t.large.frame[:n]
	return true
}

// played counts the frame that the tape's reader has come to, unless err kept it from
// that. False means that there is nothing to be sent.
func (e *export) played(err error, size int, now time.Duration) bool {
	r := e.tape.r
	if _, ok := errors.AsType[*refusal](err); ok {
		e.book.Passed(r.Seq(), r.Missed())
		e.loaded, e.copied, e.trouble = r.Seq(), r.Seq(), err
		return false
	}
	if e.failed(err, now) {
		return false
	}
	e.book.Recorded(r.Seq(), r.Missed())
	e.captured, e.loaded, e.copied, e.size = e.note.when(r.Seq()), r.Seq(), r.Seq(), size
	return true
}

// addRecord appends r, of size bytes, to what waits to be granted.
func (e *export) addRecord(r wire.Record, size int) {
	t := e.tape
	r.Seq, r.Captured, r.Missed = t.r.Seq(), e.captured, t.r.Missed()
	t.record = t.record[:copy(t.record, t.rest)]
	t.record = append(wire.AppendRecordHead(t.record, r, size), r.Data...)
	t.rest = t.record
}
