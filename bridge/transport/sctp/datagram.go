package sctp

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/pion/sctp"

	"achbridge/bridge/transport/session"
)

// datagrams is what a link needs for datagrams.
type datagrams struct {
	stream   *sctp.Stream
	received chan []byte

	// Guarded by the link's mu.
	queued int // datagrams that SCTP has not sent yet
	bytes  int // of those
}

func (l *link) SendDatagram(b []byte) error {
	if most := l.MaxDatagram(); len(b) > most {
		return fmt.Errorf("%w: %d bytes, at most %d", session.ErrTooLarge, len(b), most)
	}
	format := sctp.PayloadProtocolIdentifier(datagramFormat)
	if len(b) == 0 {
		format, b = noBytesFormat, []byte{0}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.datagrams.queued >= shortQueue && l.cause == nil {
		l.changed.Wait()
	}
	if l.cause != nil {
		return l.cause
	}
	if _, err := l.datagrams.stream.WriteSCTP(b, format); err != nil {
		return fmt.Errorf("association: %w", err)
	}
	l.datagrams.queued++
	l.datagrams.bytes += len(b)
	return nil
}

// receive takes datagrams out of the association, so that they never count against
// what the peer may send.
func (l *link) receive() {
	b := make([]byte, largestPacket)
	for {
		n, format, err := l.datagrams.stream.ReadSCTP(b)
		if err != nil {
			l.broke(err)
			return
		}
		d := append([]byte{}, b[:n]...)
		if format == noBytesFormat {
			d = d[:0]
		}
		select {
		case l.datagrams.received <- d:
		default:
		}
	}
}

func (l *link) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	return session.NextOrQueued(ctx, l.datagrams.received, l.ending, l.fault)
}

func (l *link) MaxDatagram() int { return (l.mtu - commonHeader - dataHeader) &^ 3 }

// Window is the congestion window, or the peer's receive window if that is less, minus the
// bytes that wait in SCTP already.
func (l *link) Window() int {
	l.mu.Lock()
	waiting := l.datagrams.bytes
	l.mu.Unlock()
	flying := l.assoc.BufferedAmount() - waiting
	return max(0, min(int(l.assoc.CWND()), int(l.assoc.RWND())+flying)-l.mtu-waiting)
}

// sent notes a DATA chunk that leaves.
func (l *link) sent(chunk []byte) {
	if len(chunk) < dataHeader {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if binary.BigEndian.Uint16(chunk[8:]) != datagramNumber {
		l.streams.sent(binary.BigEndian.Uint32(chunk[4:]))
		return
	}
	l.datagrams.queued--
	l.datagrams.bytes -= len(chunk) - dataHeader
	if l.datagrams.queued == shortQueue-1 {
		l.changed.Broadcast()
	}
}

// urge wakes SCTP to look at its queue again. After the last packets were lost, SCTP sends only
// two packets each time it is woken, whatever the window (its TLR), and the rest only after
// the next acknowledgement.
func (l *link) urge() {
	l.mu.Lock()
	waiting := l.datagrams.queued > 0
	l.mu.Unlock()
	if waiting {
		l.datagrams.stream.Write(nil)
	}
}
