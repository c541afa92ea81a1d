package session

import (
	"context"
	"errors"
)

var (
	// ErrStreamLimit is returned when the number of open streams is at the peer's limit.
	ErrStreamLimit = errors.New("too many open streams")
	// ErrStopped is returned when the peer has stopped reading a stream.
	ErrStopped = errors.New("peer has stopped reading the stream")
	// ErrReset is returned when the peer has reset a stream before its end.
	ErrReset = errors.New("peer has reset the stream")
)

// SendStream is the writing end of a reliable, ordered stream to the peer, opened by
// OpenStream. The caller must end it by Close or Reset, even after a Write has failed, unless
// the session has ended. One goroutine at a time may write and close.
type SendStream interface {
	// Write blocks until the transport has accepted all of b. When it returns, at most about
	// one packet (1452 bytes) still waits to be sent, so that the caller chooses the next
	// data as late as possible. It returns ErrStopped when the peer reads no more, Session.Err
	// when the session has ended, and net.ErrClosed after Close or Reset. Data accepted before
	// may then be lost.
	Write(b []byte) (int, error)

	// Close ends the stream: the peer reads all written data, and then io.EOF. Close does not
	// wait for that. If the session is closed right after, the rest of the stream may be lost.
	Close()

	// Reset ends the stream at once, also after Close. Data that is not delivered is dropped,
	// and the peer reads ErrReset, or io.EOF if it has already got the end. Reset may be called
	// from any goroutine and ends a Write that blocks.
	Reset()
}

// ReceiveStream is the reading end of a stream that the peer opened, returned by AcceptStream.
// It counts against the peer's limit until Read has returned an error or Stop was called. One
// goroutine at a time may read.
type ReceiveStream interface {
	// Read blocks until there is data. It returns io.EOF at the regular end, ErrReset if the
	// peer has reset the stream, Session.Err if the session has ended (even if there was more
	// data), and net.ErrClosed after Stop. While Read is not called, the peer's Write blocks.
	Read(b []byte) (int, error)

	// Stop stops reading: it drops the data that has arrived, and the peer's Write fails. It
	// may be called from any goroutine, ends a Read that blocks, and does nothing after the end.
	Stop()
}

// OpenStream opens a stream to the peer. The peer may notice the stream only after the first
// Write, Close or Reset. OpenStream never blocks. It returns ErrStreamLimit if 256 streams are
// open.
//
// Datagrams and the control stream have priority over other streams in the transport. But all
// of them share one congestion window. A writer that never pauses fills it, and the path's
// queue. Each datagram then waits for an acknowledgement, for at most two packets' time in the
// steady state, and afterwards in that queue. A writer that keeps the bytes in flight below
// Window delays no datagram in the transport.
func (s *Session) OpenStream() (SendStream, error) { return s.made.Carrier.OpenStream() }

// AcceptStream returns the next stream that the peer opened, in the order of opening. It blocks
// until there is one, ctx is done, or the session has ended (Err). Not safe for concurrent
// use.
func (s *Session) AcceptStream(ctx context.Context) (ReceiveStream, error) {
	return s.made.Carrier.AcceptStream(ctx)
}
