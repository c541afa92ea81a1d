package sctp

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/pion/sctp"

	"achbridge/bridge/transport/session"
)

// datagrams is the state of a link for datagrams.
type datagrams struct {
	stream   *sctp.Stream
	received chan []byte

	// Guarded by the link's mu.
	queued int // number of datagrams that SCTP has not sent yet
	bytes  int // size of the queued datagrams
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

// receive reads datagrams from the association, so that they never use its receive window.
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
	return session.NextOrQueued(ctx, l.datagrams.received, l.stopping, l.Err)
}

func (l *link) MaxDatagram() int { return (l.mtu - commonHeader - dataHeader) &^ 3 }

// Window returns the congestion window, or the peer's receive window if that is less, minus the
// bytes that wait in SCTP.
func (l *link) Window() int {
	l.mu.Lock()
	waiting := l.datagrams.bytes
	l.mu.Unlock()
	flying := l.assoc.BufferedAmount() - waiting
	return max(0, min(int(l.assoc.CWND()), int(l.assoc.RWND())+flying)-l.mtu-waiting)
}

// sent records a DATA chunk that is sent.
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

// urge wakes SCTP so that it continues sending its queue. After a loss of the last packets,
// SCTP sends only two packets each time it is woken, regardless of the window (its TLR), and
// the rest only after the next acknowledgement.
func (l *link) urge() {
	l.mu.Lock()
	waiting := l.datagrams.queued > 0
	l.mu.Unlock()
	if waiting {
		l.datagrams.stream.Write(nil)
	}
}
