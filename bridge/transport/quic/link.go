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

// link is the Carrier over QUIC. After a close by either side no goroutine of quic-go remains:
// the run loop and the sender of a connection end before its context is done.
type link struct {
	conn  *quic.Conn
	marks *marks // nil if the socket cannot mark packets
}

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

// MaxDatagram sends a datagram that is certainly too large, since quic-go has no other way to
// get the limit. quic-go refuses the datagram, and the error contains the limit.
func (l *link) MaxDatagram() int {
	var huge [2 * session.PacketSize]byte
	if e, ok := errors.AsType[*quic.DatagramTooLargeError](l.conn.SendDatagram(huge[:])); ok {
		return int(e.MaxDatagramPayloadSize)
	}
	return 0 // the peer accepts no datagrams
}

func (l *link) Window() int {
	return max(0, int(l.conn.ConnectionStats().CongestionWindow)-session.PacketSize)
}

func (l *link) RTT() time.Duration { return l.conn.ConnectionStats().SmoothedRTT }

func (l *link) ReceivedPackets() uint64 { return l.conn.ConnectionStats().PacketsReceived }

func (l *link) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

func (l *link) SetDSCP(d via.DSCP) {
	if l.marks != nil {
		l.marks.set(l, d)
	}
}

func (l *link) DSCP() via.DSCP {
	if l.marks == nil {
		return via.CS0
	}
	return l.marks.lookup(l.RemoteAddr())
}

func (l *link) Err() error {
	return causeOf(context.Cause(l.conn.Context()))
}

func (l *link) Close(reason string) { l.conn.CloseWithError(codeClosed, reason) }
