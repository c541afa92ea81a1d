package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/via"

	"github.com/quic-go/quic-go"
)

// quicLink is the carrier over QUIC. Closing it, from either side, leaves no
// goroutine of quic-go: one run loop and one sender belong to each connection and
// end before its context does.
type quicLink struct{ conn *quic.Conn }

func (l *quicLink) Kind() via.Kind { return via.QUIC }

func (l *quicLink) SendDatagram(b []byte) error {
	err := l.conn.SendDatagram(b)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*quic.DatagramTooLargeError](err); ok {
		return fmt.Errorf("%w: %d bytes, at most %d", session.ErrTooLarge, len(b), e.MaxDatagramPayloadSize)
	}
	return quicCause(err)
}

func (l *quicLink) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	b, err := l.conn.ReceiveDatagram(ctx)
	if err != nil {
		return nil, quicCause(err)
	}
	return b, nil
}

// MaxDatagram asks quic-go in the only way there is: it sends a datagram that is surely too
// large. quic-go refuses it for its length, and the error has the limit.
func (l *quicLink) MaxDatagram() int {
	var huge [2 * session.PacketSize]byte
	if e, ok := errors.AsType[*quic.DatagramTooLargeError](l.conn.SendDatagram(huge[:])); ok {
		return int(e.MaxDatagramPayloadSize)
	}
	return 0 // the peer takes no datagrams
}

func (l *quicLink) Window() int {
	return max(0, int(l.conn.ConnectionStats().CongestionWindow)-session.PacketSize)
}

func (l *quicLink) RTT() time.Duration { return l.conn.ConnectionStats().SmoothedRTT }

func (l *quicLink) Heard() uint64 { return l.conn.ConnectionStats().PacketsReceived }

func (l *quicLink) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

func (l *quicLink) Err() error {
	err := context.Cause(l.conn.Context())
	if err == nil {
		return nil
	}
	return quicCause(err)
}

func (l *quicLink) Close(reason string) { l.conn.CloseWithError(codeClosed, reason) }
