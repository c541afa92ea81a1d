package transport

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/quic-go/quic-go"

	"achbridge/bridge/transport/session"
)

// codeEnded is the code in every RESET_STREAM and STOP_SENDING. The kind of the frame alone
// has a meaning.
const codeEnded quic.StreamErrorCode = 0

// controlUrgency puts the control stream before the others (RFC 9218: 0 is most
// urgent, 3 the default), so that bulk does not hold up control messages.
const controlUrgency = 0

func (l *quicLink) OpenStream() (SendStream, error) {
	stream, err := l.conn.OpenUniStream()
	if _, full := errors.AsType[*quic.StreamLimitReachedError](err); full {
		return nil, session.ErrStreamLimit
	}
	if err != nil {
		return nil, quicCause(err)
	}
	return quicSendStream{stream}, nil
}

func (l *quicLink) AcceptStream(ctx context.Context) (ReceiveStream, error) {
	stream, err := l.conn.AcceptUniStream(ctx)
	if err != nil {
		return nil, quicCause(err)
	}
	return quicReceiveStream{stream}, nil
}

type quicSendStream struct{ stream *quic.SendStream }

func (s quicSendStream) Write(b []byte) (int, error) {
	n, err := s.stream.Write(b)
	return n, streamCause(err, session.ErrStopped)
}

// Close has no error to report: quic-go knows one only for a stream that was
// reset or stopped, and Write tells that.
func (s quicSendStream) Close() { s.stream.Close() }

func (s quicSendStream) Reset() { s.stream.CancelWrite(codeEnded) }

type quicReceiveStream struct{ stream *quic.ReceiveStream }

func (s quicReceiveStream) Read(b []byte) (int, error) {
	n, err := s.stream.Read(b)
	return n, streamCause(err, ErrReset)
}

func (s quicReceiveStream) Stop() { s.stream.CancelRead(codeEnded) }

// quicControl is the control stream. It lives as long as the session: whoever ends
// it, or one direction of it, breaks the protocol.
type quicControl struct{ stream *quic.Stream }

func (c quicControl) Read(b []byte) (int, error) {
	n, err := c.stream.Read(b)
	return n, streamCause(err, ErrReset)
}

func (c quicControl) Write(b []byte) (int, error) {
	n, err := c.stream.Write(b)
	return n, streamCause(err, session.ErrStopped)
}

// streamCause says in this package's words why a stream ended; remote is what it
// means when the peer ended it.
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
	return quicCause(err)
}
