package sctp

import (
	"context"
	"encoding/binary"
	"net"
	"time"

	"github.com/pion/sctp"

	"achbridge/bridge/transport/session"
)

// Streams over SCTP. SCTP has flow control only for the whole association, so one stream that
// is not read would block the others. It also cannot distinguish the end of a stream from a
// loss. So each of 256 streams has its own stream number in each direction, starting at
// firstNumber. It carries messages of three formats: bytes, the end, and the cut (a reset). The
// last two contain the stream's generation. A number is reused after the reader has finished
// with it. All other messages about streams are called words and are sent on number 2:
//
//	byte 0     kind
//	bytes 1-2  index: 0 is the control stream, i is number firstNumber+i-1
//	bytes 3-6  generation (open) or bytes (credit), else zero
const (
	wordSize = 7

	wordOpen   = 1 // writer: opens a stream
	wordCredit = 2 // reader: this many bytes have been read
	wordStop   = 3 // reader: requests the writer to cut the stream
	wordDone   = 4 // reader: has read the end; the number is free

	// creditStep is the minimum number of read bytes for which the reader sends credit. The unsent
	// credit of all streams together is a small part of ConnectionWindow.
	creditStep = session.StreamWindow / 16
)

// word is a message about a stream.
type word struct {
	kind  byte
	index uint16
	n     uint32
}

func appendWord(dst []byte, w word) []byte {
	dst = append(dst, w.kind)
	dst = binary.BigEndian.AppendUint16(dst, w.index)
	return binary.BigEndian.AppendUint32(dst, w.n)
}

func parseWord(b []byte) (w word, ok bool) {
	if len(b) != wordSize {
		return word{}, false
	}
	w = word{b[0], binary.BigEndian.Uint16(b[1:]), binary.BigEndian.Uint32(b[3:])}
	return w, w.kind >= wordOpen && w.kind <= wordDone && w.index <= session.MaxStreams
}

// streams has the streams of a link. The link's mu guards it.
type streams struct {
	link            *link
	words           *sctp.Stream
	control         controlStream
	arrivals        chan *receiveStream // has room for all streams that the peer may open
	tracks          [1 + session.MaxStreams]track
	uncreditedBytes int // bytes that we sent, except on control, and for which the peer has sent no credit yet
	unread          int // bytes that the peer sent, except on control, and that were not read yet
	cwnd            congestionWindow
	written         int    // bytes passed to SCTP
	acked           int    // bytes of these that were acknowledged at the last progress
	waitingWriters  int    // number of writers that wait for the congestion window
	tsn             uint32 // newest TSN that was sent
	began           bool   // tsn is known
}

// track has the streams with one index, in both directions.
type track struct {
	index  uint16
	stream *sctp.Stream // nil until used
	out    *sendStream
	in     *receiveStream
	outGen byte // generation of the next outgoing stream
	inGen  byte
}

func (s *streams) init(l *link) {
	s.link, s.cwnd = l, newCongestionWindow()
	s.arrivals = make(chan *receiveStream, session.MaxStreams)
	for i := range s.tracks {
		s.tracks[i].index = uint16(i)
	}
	control := &s.tracks[0]
	control.out = &sendStream{s: s, track: control, credit: session.StreamWindow}
	control.in = &receiveStream{s: s, track: control, opened: true}
	s.control = controlStream{control.in, control.out}
}

// attach sets the SCTP stream of a track, and begins to read it. mu must be held.
func (s *streams) attach(t *track, stream *sctp.Stream) {
	if t.stream == nil {
		t.stream = stream
		s.link.wg.Go(func() { s.fill(t) })
	}
}

// say sends a word. mu must be held.
func (s *streams) say(w word) {
	if s.words.BufferedAmount() > maxWords {
		s.link.violated("it does not take in what is said about streams")
		return
	}
	s.send(s.words, appendWord(nil, w), wordFormat)
}

// send passes a message to SCTP. It ignores the error: that can only be the end of the
// association, which ends the link anyway. mu must be held.
func (s *streams) send(stream *sctp.Stream, b []byte, format sctp.PayloadProtocolIdentifier) {
	if n, err := stream.WriteSCTP(b, format); err == nil {
		s.written += n
	}
}

// flying returns the bytes that SCTP has and the peer has not acknowledged.
func (s *streams) flying() int {
	return s.link.assoc.BufferedAmount() - int(s.link.datagrams.stream.BufferedAmount())
}

// sent records a chunk that is sent. mu must be held.
func (s *streams) sent(tsn uint32) {
	if s.began && int32(tsn-s.tsn) <= 0 {
		s.cwnd.lost(time.Now(), s.link.trip.smoothed)
		return
	}
	s.began, s.tsn = true, tsn
}

// progress wakes writers when acknowledgements have made room.
func (l *link) progress() {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.streams
	if s.waitingWriters == 0 {
		return
	}
	flying := s.flying()
	if acked := s.written - flying; acked > s.acked {
		s.cwnd.acked(acked - s.acked)
		s.acked = acked
	}
	if flying < s.cwnd.limit {
		l.changed.Broadcast()
	}
}

func (l *link) OpenStream() (session.SendStream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return nil, l.cause
	}
	s := &l.streams
	for i := 1; i < len(s.tracks); i++ {
		t := &s.tracks[i]
		if t.out != nil {
			continue
		}
		if t.stream == nil {
			stream, err := l.assoc.OpenStream(firstNumber+t.index-1, streamFormat)
			if err != nil {
				return nil, net.ErrClosed
			}
			s.attach(t, stream)
		}
		t.out = &sendStream{s: s, track: t, gen: t.outGen, credit: session.StreamWindow}
		t.outGen++
		s.say(word{wordOpen, t.index, uint32(t.out.gen)})
		return t.out, nil
	}
	return nil, session.ErrStreamLimit
}

func (l *link) AcceptStream(ctx context.Context) (session.ReceiveStream, error) {
	s, err := session.NextUnlessOver(ctx, l.streams.arrivals, l.stopping, l.Err) // streams that were not accepted end with the session
	if err != nil {
		return nil, err
	}
	return s, nil
}

// accept handles stream numbers that the peer uses for the first time.
func (l *link) accept() {
	for {
		stream, err := l.assoc.AcceptStream()
		if err != nil {
			return // receive gets the reason
		}
		number := stream.StreamIdentifier()
		l.mu.Lock()
		if number >= firstNumber {
			l.streams.attach(&l.streams.tracks[1+number-firstNumber], stream)
		}
		l.mu.Unlock()
	}
}

// listen reads and handles the peer's words.
func (l *link) listen() {
	b := make([]byte, largestPacket)
	for {
		n, _, err := l.streams.words.ReadSCTP(b)
		if err != nil {
			l.broke(err)
			return
		}
		l.backlog.read(wordsNumber)
		l.mu.Lock()
		if w, ok := parseWord(b[:n]); !ok || !l.streams.received(w) {
			l.violated("bad word about a stream")
		}
		l.mu.Unlock()
	}
}

// received handles a word. It returns false if the word violates the protocol. mu must be held.
func (s *streams) received(w word) bool {
	t := &s.tracks[w.index]
	out := t.out
	if w.kind != wordOpen && out == nil || w.kind != wordCredit && w.index == 0 {
		return false
	}
	switch w.kind {
	case wordOpen:
		in := s.incoming(t)
		if in.opened || uint32(in.gen) != w.n {
			return false
		}
		in.opened = true
		s.arrivals <- in // does not block: it has room for one stream of each index
	case wordCredit:
		if uint64(out.credit)+uint64(w.n) > session.StreamWindow {
			return false
		}
		out.credit += int(w.n)
		if w.index != 0 {
			s.uncreditedBytes -= int(w.n)
		}
	case wordStop:
		out.stopped = true
		out.finish(streamCutFormat)
	case wordDone:
		if !out.finished {
			return false
		}
		s.uncreditedBytes -= session.StreamWindow - out.credit
		t.out = nil
	}
	s.link.changed.Broadcast()
	return true
}
