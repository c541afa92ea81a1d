package session

import (
	"bytes"
	"io"
	"net"
)

// pipeStream is a one-way stream between the ends of a pipe, or one direction of their control
// stream. pipe.mu guards its state.
type pipeStream struct {
	from *pipeEnd
	// unread holds at most StreamWindow, as over QUIC.
	unread bytes.Buffer

	closed  bool // the writer has closed it
	reset   bool // the writer has reset it
	stopped bool // the reader has stopped it
	over    bool // the stream no longer counts as open
}

func newPipeStream(from *pipeEnd) *pipeStream { return &pipeStream{from: from} }

func (s *pipeStream) write(b []byte) (written int, err error) {
	p := s.from.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case s.closed || s.reset:
			return written, net.ErrClosed
		case s.stopped:
			return written, ErrStopped
		case s.from.cause != nil:
			return written, s.from.cause
		}
		n, _ := s.unread.Write(b[written:][:min(len(b)-written, StreamWindow-s.unread.Len())])
		if n > 0 {
			p.changed.Broadcast()
		}
		if written += n; written == len(b) {
			return written, nil
		}
		p.changed.Wait()
	}
}

func (s *pipeStream) read(b []byte) (int, error) {
	p := s.from.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case s.stopped:
			return 0, net.ErrClosed
		case s.reset:
			s.leave()
			return 0, ErrReset
		case s.closed && s.unread.Len() == 0 && s.over:
			return 0, io.EOF // the reader got the end before the session ended
		case s.from.other.cause != nil:
			return 0, s.from.other.cause
		case s.unread.Len() > 0:
			p.changed.Broadcast()
			return s.unread.Read(b)
		case s.closed:
			s.leave()
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		p.changed.Wait()
	}
}

// leave marks s as over, so that another stream may be opened.
func (s *pipeStream) leave() {
	if !s.over {
		s.over = true
		s.from.open--
	}
}

// end calls change under the lock, and wakes blocked calls.
func (s *pipeStream) end(change func()) {
	s.from.pipe.mu.Lock()
	defer s.from.pipe.mu.Unlock()
	change()
	s.from.pipe.changed.Broadcast()
}

type pipeSendStream struct{ s *pipeStream }

func (w pipeSendStream) Write(b []byte) (int, error) { return w.s.write(b) }

func (w pipeSendStream) Close() { w.s.end(func() { w.s.closed = true }) }

func (w pipeSendStream) Reset() {
	w.s.end(func() {
		if w.s.over {
			return // the reader has received the end, or has stopped
		}
		w.s.reset = true
		w.s.unread = bytes.Buffer{}
	})
}

type pipeReceiveStream struct{ s *pipeStream }

func (r pipeReceiveStream) Read(b []byte) (int, error) { return r.s.read(b) }

func (r pipeReceiveStream) Stop() {
	r.s.end(func() {
		if r.s.over {
			return // the reader has received the end
		}
		r.s.stopped = true
		r.s.unread = bytes.Buffer{}
		r.s.leave()
	})
}

// pipeControl is one end's view of the control stream. It never ends by itself.
type pipeControl struct{ in, out *pipeStream }

func (c pipeControl) Read(b []byte) (int, error) { return c.in.read(b) }

func (c pipeControl) Write(b []byte) (int, error) { return c.out.write(b) }
