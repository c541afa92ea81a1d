package session

import (
	"context"
	"errors"
)

var (
	// ErrStreamLimit says that as many streams are open as the peer allows.
	ErrStreamLimit = errors.New("too many open streams")
	// ErrStopped says that the peer has stopped reading a stream.
	ErrStopped = errors.New("peer has stopped reading the stream")
	// ErrReset says that the peer has given up a stream before its end.
	ErrReset = errors.New("peer has reset the stream")
)

// SendStream is the writing end of a reliable, ordered stream to the peer, made by
// OpenStream. Its life ends with Close or Reset, and whoever opened it must call
// one of them even after a Write has failed, unless the session has ended. One
// goroutine at a time may write and close.
type SendStream interface {
	// Write blocks until the transport has taken all of b. When it returns, at most about
	// one packet (1452 bytes) still waits to be sent, so that the caller chooses the next
	// data as late as possible. It fails when the peer reads no more, with Session.Err
	// when the session has ended, and with net.ErrClosed after Close or Reset; data taken
	// before may then be lost.
	Write(b []byte) (int, error)

	// Close ends the stream regularly: the peer reads all that was written, then
	// io.EOF. It does not wait for that, and a session that is closed at once may
	// take the rest of the stream along.
	Close()

	// Reset ends the stream at once, also after Close: what is not delivered is
	// dropped, and the peer reads ErrReset (or io.EOF when the end came first). It
	// may be called from any goroutine and ends a Write that blocks.
	Reset()
}

// ReceiveStream is the reading end of a stream that the peer opened, made by
// AcceptStream. It counts against the peer's limit until Read has returned an
// error or Stop was called. One goroutine at a time may read.
type ReceiveStream interface {
	// Read blocks until there is something to read. It fails with io.EOF at the
	// regular end, with ErrReset when the peer gave the stream up, with Session.Err
	// when the session has ended (even if there was more to read), and with
	// net.ErrClosed after Stop. While nobody reads, the peer's Write blocks.
	Read(b []byte) (int, error)

	// Stop tells the peer that we read no more and drops what has arrived. It may be
	// called from any goroutine, ends a Read that blocks, and does nothing after
	// the end.
	Stop()
}

// OpenStream opens a stream to the peer, who may learn of it only by the first
// Write, Close or Reset. It never blocks: it fails when 256 are open
// already.
//
// Datagrams and the control stream overtake other streams in the transport. All of
// them share one congestion window, though: a writer that just writes on fills it,
// and the path's queue. Each datagram then waits for an acknowledgement to make
// room, two packets' time at most in the steady state, and afterwards in that queue.
// One that keeps the bytes in flight below Window delays no datagram here.
func (s *Session) OpenStream() (SendStream, error) { return s.made.Carrier.OpenStream() }

// AcceptStream returns the next stream that the peer opened, in the order in which
// it opened them. It blocks until there is one, ctx is done, or the session has
// ended (Err). One goroutine at a time.
func (s *Session) AcceptStream(ctx context.Context) (ReceiveStream, error) {
	return s.made.Carrier.AcceptStream(ctx)
}
