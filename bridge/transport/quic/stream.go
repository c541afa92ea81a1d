package quic

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/quic-go/quic-go"

	"achbridge/bridge/transport/session"
)

// codeEnded is the code in every RESET_STREAM and STOP_SENDING frame. Only the frame type has a
// meaning.
const codeEnded quic.StreamErrorCode = 0

// controlUrgency gives the control stream priority over the others (RFC 9218: 0 is most urgent,
// 3 the default), so that bulk data does not delay control messages.
const controlUrgency = 0

func (l *link) OpenStream() (session.SendStream, error) {
	stream, err := l.conn.OpenUniStream()
	if _, full := errors.AsType[*quic.StreamLimitReachedError](err); full {
		return nil, session.ErrStreamLimit
	}
	if err != nil {
		return nil, causeOf(err)
	}
	return sendStream{stream}, nil
}

func (l *link) AcceptStream(ctx context.Context) (session.ReceiveStream, error) {
	stream, err := l.conn.AcceptUniStream(ctx)
	if err != nil {
		return nil, causeOf(err)
	}
	return receiveStream{stream}, nil
}

type sendStream struct{ stream *quic.SendStream }

func (s sendStream) Write(b []byte) (int, error) {
	n, err := s.stream.Write(b)
	return n, streamCause(err, session.ErrStopped)
}

// Close returns no error: quic-go returns one only for a stream that was reset or stopped, and
// Write returns that.
func (s sendStream) Close() { s.stream.Close() }

func (s sendStream) Reset() { s.stream.CancelWrite(codeEnded) }

type receiveStream struct{ stream *quic.ReceiveStream }

func (s receiveStream) Read(b []byte) (int, error) {
	n, err := s.stream.Read(b)
	return n, streamCause(err, session.ErrReset)
}

func (s receiveStream) Stop() { s.stream.CancelRead(codeEnded) }

// controlStream is the control stream. It exists as long as the session. A peer that ends it, or
// one direction of it, violates the protocol.
type controlStream struct{ stream *quic.Stream }

func (c controlStream) Read(b []byte) (int, error) {
	n, err := c.stream.Read(b)
	return n, streamCause(err, session.ErrReset)
}

func (c controlStream) Write(b []byte) (int, error) {
	n, err := c.stream.Write(b)
	return n, streamCause(err, session.ErrStopped)
}

// streamCause converts the error of a stream into one of package session. It returns remote if
// the peer ended the stream.
func streamCause(err, remote error) error {
	if err == nil || err == io.EOF {
		return err
	}
	e, ended := errors.AsType[*quic.StreamError](err)
	switch {
	case ended && e.Remote:
		return remote
	case ended || errors.Is(err, quic.ErrStreamClosed):
		return net.ErrClosed
	}
	return causeOf(err)
}
