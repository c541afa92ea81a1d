package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"achbridge/bridge/via"

	"github.com/quic-go/quic-go"
)

// quicLink is the carrier over QUIC. Closing it, from either side, leaves no
// goroutine of quic-go: one run loop and one sender belong to each connection and
// end before its context does.
type quicLink struct{ conn *quic.Conn }

// quicPacket is the size of the packets we send, in bytes of UDP payload: what IPv6
// carries everywhere (RFC 8200 section 5), 1280 bytes with its header and UDP's.
const quicPacket = 1232

func (l *quicLink) kind() via.Kind { return via.QUIC }

func (l *quicLink) sendDatagram(b []byte) error {
	err := l.conn.SendDatagram(b)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*quic.DatagramTooLargeError](err); ok {
		return fmt.Errorf("%w: %d bytes, at most %d", errTooLarge, len(b), e.MaxDatagramPayloadSize)
	}
	return quicCause(err)
}

func (l *quicLink) receiveDatagram(ctx context.Context) ([]byte, error) {
	b, err := l.conn.ReceiveDatagram(ctx)
	if err != nil {
		return nil, quicCause(err)
	}
	return b, nil
}

// maxDatagram asks quic-go in the only way there is: it sends a datagram that is surely too
// large. quic-go refuses it for its length, and the error has the limit.
func (l *quicLink) maxDatagram() int {
	var huge [2 * quicPacket]byte
	if e, ok := errors.AsType[*quic.DatagramTooLargeError](l.conn.SendDatagram(huge[:])); ok {
		return int(e.MaxDatagramPayloadSize)
	}
	return 0 // the peer takes no datagrams
}

func (l *quicLink) window() int {
	return max(0, int(l.conn.ConnectionStats().CongestionWindow)-quicPacket)
}

func (l *quicLink) rtt() time.Duration { return l.conn.ConnectionStats().SmoothedRTT }

func (l *quicLink) heard() uint64 { return l.conn.ConnectionStats().PacketsReceived }

func (l *quicLink) remoteAddr() net.Addr { return l.conn.RemoteAddr() }

func (l *quicLink) err() error {
	err := context.Cause(l.conn.Context())
	if err == nil {
		return nil
	}
	return quicCause(err)
}

func (l *quicLink) close(reason string) { l.conn.CloseWithError(codeClosed, reason) }
