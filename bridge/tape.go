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
	busy   bool   // play has a piece
	err    error  // why the stream has ended
}

// tapePiece is how much of a stream leaves with one datagram: with that, it fits
// one packet.
const tapePiece = 1100

// mostPacked is the largest frame that is packed while the pump waits, in bytes.
const mostPacked = 64 << 10

// newTape prepares the stream of subscription id, whose mirror has frame have.
func newTape(id uint32, ch *localach.Channel, have uint64) *tape {
	t := &tape{
		r: ch.ReaderAfter(have), pieces: make(chan []byte, 1), ended: make(chan struct{}), frame: make([]byte, ch.Geometry().FrameSize),
	}
	t.record = wire.AppendStreamHeader(nil, wire.StreamHeader{Sub: id, Epoch: ch.Epoch()})
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
	if e.tape.busy || e.tape.err != nil || len(e.tape.rest) == 0 && (e.noted.newest <= e.loaded || now < e.retry) {
		return turn{}, false
	}
	gain := (now - e.captured).Seconds()
	return turn{e: e, level: e.qos.Priority.Level(), urgency: gain * gain / float64(e.size+entryOverhead)}, true
}

// addTape grants the stream of e its next piece, which leaves with this datagram:
// word of the one is word of the other.
func (l *link) addTape(box *outbox, e *export, now time.Duration) {
	t := e.tape
	for len(t.rest) < tapePiece && e.nextRecord(now, l.pacer.Rate()) {
	}
	piece := t.rest[:min(len(t.rest), tapePiece)]
	if len(piece) == 0 {
		return
	}
	t.rest, t.busy = t.rest[len(piece):], true
	t.pieces <- piece
	box.body = wire.AppendMark(box.body, wire.Mark{Sub: e.id, Bytes: len(piece)})
	box.stream = len(piece)
}

// nextRecord encodes the next frame of the ring behind what waits to be granted.
func (e *export) nextRecord(now time.Duration, rate float64) bool {
	if e.note.read().newest <= e.loaded || now < e.retry {
		return false
	}
	t := e.tape
	n, err := t.r.TryNextOldest(t.frame)
	if errors.Is(err, io.ErrShortBuffer) {
		t.frame = make([]byte, n)
		n, err = t.r.TryNextOldest(t.frame)
	}
	if e.failed(err, now) {
		return false
	}
	seq, missed := t.r.Seq(), t.r.Missed()
	e.book.recorded(seq, missed)
	e.captured, e.loaded, e.copied, e.size = e.note.when(seq), seq, seq, n
	t.record = t.record[:copy(t.record, t.rest)]
	data, codec := t.frame[:n], wire.CodecNone
	if n <= mostPacked {
		data, codec = e.packer.pack(data, rate)
	}
	t.record = wire.AppendRecord(t.record, wire.Record{
		Seq: seq, Captured: e.captured, Missed: missed, Codec: codec, RawSize: n, Data: data,
	})
	t.rest = t.record
	return true
}
