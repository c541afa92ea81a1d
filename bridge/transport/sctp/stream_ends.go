package sctp

import (
	"bytes"
	"fmt"
	"io"
	"net"

	"github.com/pion/sctp"

	"achbridge/bridge/transport/session"
)

// sendStream is the writing end of a stream. The link's mu guards it.
type sendStream struct {
	s        *streams
	track    *track
	gen      byte
	credit   int  // bytes that the reader has room for
	closed   bool // Close or Reset was called
	stopped  bool // the reader has stopped the stream
	finished bool // the end or the cut was sent
}

func (w *sendStream) Write(b []byte) (written int, err error) {
	l := w.s.link
	l.mu.Lock()
	defer l.mu.Unlock()
	for written < len(b) {
		switch {
		case w.closed:
			return written, net.ErrClosed
		case w.stopped:
			return written, session.ErrStopped
		case l.cause != nil:
			return written, l.cause
		}
		n := min(len(b)-written, l.MaxDatagram(), w.credit)
		if w.track.index != 0 {
			n = min(n, session.ConnectionWindow-w.s.uncreditedBytes)
		}
		if n <= 0 {
			l.changed.Wait()
			continue
		}
		if flying := w.s.flying(); flying > 0 && flying+n > w.s.cwnd.limit {
			w.s.hold(flying)
			continue
		}
		w.s.send(w.track.stream, b[written:written+n], streamFormat)
		written += n
		w.credit -= n
		if w.track.index != 0 {
			w.s.uncreditedBytes += n
		}
	}
	return written, nil
}

// hold waits until the congestion window may have room. mu must be held.
func (s *streams) hold(flying int) {
	if s.waitingWriters == 0 {
		s.acked = s.written - flying
	}
	s.waitingWriters++
	s.link.changed.Wait()
	s.waitingWriters--
}

func (w *sendStream) Close() { w.shut(streamEndFormat) }

func (w *sendStream) Reset() { w.shut(streamCutFormat) }

func (w *sendStream) shut(format sctp.PayloadProtocolIdentifier) {
	l := w.s.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.closed && format == streamEndFormat || w.track.out != w {
		return
	}
	w.closed = true
	w.finish(format)
	l.changed.Broadcast()
}

// finish sends the end, or the cut, which may follow the end. mu must be held.
func (w *sendStream) finish(format sctp.PayloadProtocolIdentifier) {
	if w.finished && format == streamEndFormat {
		return
	}
	w.finished = true
	w.s.send(w.track.stream, []byte{w.gen}, format)
}

// receiveStream is the reading end of a stream. The link's mu guards it. It stays in its track
// until it is over and its end or cut has arrived.
type receiveStream struct {
	s        *streams
	track    *track
	gen      byte
	opened   bool // the wordOpen of the stream has arrived; data may arrive before wordOpen
	unread   bytes.Buffer
	returned int  // bytes that were read and for which no credit was sent yet
	isEnded  bool // the writer's end has arrived
	cut      bool // the writer's cut has arrived
	stopped  bool // the reader has stopped it
	over     bool // the reader has read to the end or has stopped it
}

// incoming returns the peer's current stream of a track. mu must be held.
func (s *streams) incoming(t *track) *receiveStream {
	if t.in == nil {
		t.in = &receiveStream{s: s, track: t, gen: t.inGen}
		t.inGen++
	}
	return t.in
}

// fill reads all messages of a track as they arrive, so that they do not use the association's
// receive window.
func (s *streams) fill(t *track) {
	b := make([]byte, largestPacket)
	for {
		n, format, err := t.stream.ReadSCTP(b)
		if err != nil {
			s.link.broke(err)
			return
		}
		s.link.backlog.read(t.stream.StreamIdentifier())
		s.link.mu.Lock()
		if !s.take(t, b[:n], format) {
			s.link.violated("a stream carries what it may not")
		}
		s.link.mu.Unlock()
	}
}

// take handles a message of the peer. It returns false if the message violates the protocol. mu
// must be held.
func (s *streams) take(t *track, b []byte, format sctp.PayloadProtocolIdentifier) bool {
	switch format {
	case streamFormat:
		in := s.incoming(t)
		if in.isEnded || in.cut || in.unread.Len()+len(b) > session.StreamWindow {
			return false
		}
		if in.stopped {
			return true
		}
		in.unread.Write(b)
		if t.index != 0 {
			s.unread += len(b)
		}
	case streamEndFormat, streamCutFormat:
		if len(b) != 1 || t.index == 0 {
			return false
		}
		in := t.in
		if in == nil && b[0] == t.inGen {
			in = s.incoming(t)
		}
		if in == nil || in.gen != b[0] {
			return format == streamCutFormat // a cut may follow the end
		}
		if format == streamEndFormat {
			in.isEnded = true
		} else if !in.over || in.stopped {
			in.cut = true
			in.drop()
		}
		in.leave()
	default:
		return false
	}
	s.link.changed.Broadcast()
	return s.unread <= session.ConnectionWindow
}

func (r *receiveStream) Read(b []byte) (int, error) {
	l := r.s.link
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case r.stopped:
			return 0, net.ErrClosed
		case r.cut:
			r.over = true
			r.leave()
			return 0, session.ErrReset
		case r.isEnded && r.over:
			return 0, io.EOF // the reader got the end before the session ended
		case l.cause != nil:
			return 0, l.cause
		case r.unread.Len() > 0:
			n, _ := r.unread.Read(b)
			r.credit(n)
			return n, nil
		case r.isEnded:
			r.over = true
			r.leave()
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		l.changed.Wait()
	}
}

// credit counts n more bytes that were read, and sends credit for them in steps. mu must be held.
func (r *receiveStream) credit(n int) {
	if r.track.index != 0 {
		r.s.unread -= n
	}
	if r.returned += n; r.returned >= creditStep && !r.isEnded {
		r.s.say(word{wordCredit, r.track.index, uint32(r.returned)})
		r.returned = 0
	}
}

func (r *receiveStream) Stop() {
	l := r.s.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.over {
		return
	}
	r.stopped, r.over = true, true
	r.drop()
	if !r.isEnded && !r.cut {
		r.s.say(word{wordStop, r.track.index, 0})
	}
	r.leave()
	l.changed.Broadcast()
}

// drop discards the unread bytes. mu must be held.
func (r *receiveStream) drop() {
	if r.track.index != 0 {
		r.s.unread -= r.unread.Len()
	}
	r.unread = bytes.Buffer{}
}

// leave frees the number for another stream if both sides have finished with this one. mu must
// be held.
func (r *receiveStream) leave() {
	if r.over && (r.isEnded || r.cut) && r.track.in == r {
		r.track.in = nil
		r.s.say(word{wordDone, r.track.index, 0})
	}
}

// controlStream is the control stream. It never ends by itself.
type controlStream struct {
	in  *receiveStream
	out *sendStream
}

func (c controlStream) Read(b []byte) (int, error) { return c.in.Read(b) }

func (c controlStream) Write(b []byte) (int, error) { return c.out.Write(b) }

// violated ends the link because the peer violates the protocol. mu must be held.
func (l *link) violated(how string) {
	l.endLocked(fmt.Errorf("peer breaks the protocol: %s", how))
}
