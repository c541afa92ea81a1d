package quic

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

// link is the carrier over QUIC. Closing it, from either side, leaves no
// goroutine of quic-go: one run loop and one sender belong to each connection and
// end before its context does.
type link struct{ conn *quic.Conn }

func (l *link) Kind() via.Kind { return via.QUIC }

func (l *link) SendDatagram(b []byte) error {
	err := l.conn.SendDatagram(b)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*quic.DatagramTooLargeError](err); ok {
		return fmt.Errorf("%w: %d bytes, at most %d", session.ErrTooLarge, len(b), e.MaxDatagramPayloadSize)
	}
	return causeOf(err)
}

func (l *link) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	b, err := l.conn.ReceiveDatagram(ctx)
	if err != nil {
		return nil, causeOf(err)
	}
	return b, nil
}

// MaxDatagram asks quic-go in the only way there is: it sends a datagram that is surely too
// large. quic-go refuses it for its length, and the error has the limit.
func (l *link) MaxDatagram() int {
	var huge [2 * session.PacketSize]byte
	if e, ok := errors.AsType[*quic.DatagramTooLargeError](l.conn.SendDatagram(huge[:])); ok {
		return int(e.MaxDatagramPayloadSize)
	}
	return 0 // the peer takes no datagrams
}

func (l *link) Window() int {
	return max(0, int(l.conn.ConnectionStats().CongestionWindow)-session.PacketSize)
}

func (l *link) RTT() time.Duration { return l.conn.ConnectionStats().SmoothedRTT }

func (l *link) Heard() uint64 { return l.conn.ConnectionStats().PacketsReceived }

func (l *link) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

func (l *link) Err() error {
	err := context.Cause(l.conn.Context())
	if err == nil {
		return nil
	}
	return causeOf(err)
}

func (l *link) Close(reason string) { l.conn.CloseWithError(codeClosed, reason) }
