package sctp

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/pion/dtls/v3"

	"achbridge/bridge/transport/session"
)

// tap is the net.Conn of pion/sctp. It passes packets to and from the DTLS connection and
// inspects them. So it detects events that the library does not report: when a datagram has
// left its queue, which chunks are retransmitted, how long a heartbeat takes, and the reason
// of the peer's abort.
type tap struct {
	*dtls.Conn
	link   *link
	answer []byte // answer to a repeated hello; nil for a dialler
}

const (
	// firstByte begins every SCTP packet: pion's port is always 5000. It is not
	// WelcomeByte.
	firstByte       = associationPort >> 8
	associationPort = 5000

	commonHeader = 12 // size, bytes
	dataHeader   = 16 // header of a DATA chunk, bytes

	chunkData         = 0
	chunkHeartbeat    = 4
	chunkHeartbeatAck = 5
	chunkAbort        = 6
	causeUser         = 12 // cause code of an abort by the user, followed by the reason
)

// Read returns the next SCTP packet. One goroutine calls it and handles the packets, so the
// previous packet has been handled when Read is called.
func (t *tap) Read(b []byte) (int, error) {
	t.link.progress()
	for {
		n, err := t.Conn.Read(b)
		if err != nil {
			if gone(err) {
				return n, err
			}
			continue // the alert is only a warning
		}
		now := time.Now()
		t.link.noteReceived(now)
		if n == 0 || b[0] != firstByte {
			if n > 0 && b[0] == session.WelcomeByte && t.answer != nil {
				t.Conn.Write(t.answer)
			}
			continue
		}
		for typ, chunk := range chunks(b[:n]) {
			switch typ {
			case chunkData:
				if !t.link.backlog.admit(chunk) {
					t.link.end(errBacklog)
					return 0, net.ErrClosed
				}
				t.link.arrived(chunk)
			case chunkSack:
				t.link.acknowledged(chunk, now)
			case chunkHeartbeatAck:
				t.link.beaten(chunk, now)
				t.link.path.answered(chunk, t.RemoteAddr())
			case chunkAbort:
				t.link.end(&session.CloseError{Reason: abortReason(chunk), Remote: true})
			}
		}
		return n, nil
	}
}

// gone reports whether a read error ends the connection.
func gone(err error) bool {
	netErr, ok := errors.AsType[net.Error](err)
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, dtls.ErrConnClosed) || ok && netErr.Timeout()
}

// Write sends an SCTP packet.
func (t *tap) Write(b []byte) (int, error) {
	if isForward(b) {
		t.link.skip(b, time.Now())
		return len(b), nil
	}
	for typ, chunk := range chunks(b) {
		if typ == chunkSack {
			t.link.backlog.acknowledge(chunk)
		}
	}
	if isSack(b) && t.link.needless(time.Now()) {
		return len(b), nil
	}
	data := false
	for typ, chunk := range chunks(b) {
		switch typ {
		case chunkData:
			data = true
			t.link.sent(chunk)
		case chunkAbort:
			t.link.path.leaving.Store(true)
		}
	}
	n, err := t.link.write(b, nil)
	if data {
		t.link.urge()
	}
	return n, err
}

// chunks iterates over the complete chunks of an SCTP packet, each with its header.
func chunks(b []byte) func(yield func(typ byte, chunk []byte) bool) {
	return func(yield func(byte, []byte) bool) {
		if len(b) < commonHeader {
			return
		}
		for b = b[commonHeader:]; len(b) >= 4; {
			n := int(binary.BigEndian.Uint16(b[2:]))
			if n < 4 || n > len(b) || !yield(b[0], b[:n]) {
				return
			}
			b = b[min(len(b), (n+3)&^3):]
		}
	}
}

// abortReason returns the text of an ABORT chunk.
func abortReason(chunk []byte) string {
	for b := chunk[4:]; len(b) >= 4; {
		n := int(binary.BigEndian.Uint16(b[2:]))
		if n < 4 || n > len(b) {
			return ""
		}
		if binary.BigEndian.Uint16(b) == causeUser {
			return session.Plain(string(b[4:n]))
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return ""
}
