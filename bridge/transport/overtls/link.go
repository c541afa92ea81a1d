package overtls

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/via"
)

// Kinds of records. Records of unknown kinds are skipped.
const (
	recordWelcome = 1 // the first record of each end, or one of the three that refuse
	recordData    = 2 // bytes of the control stream
	recordPing    = 3 // 8 bytes that the peer returns
	recordPong    = 4
	recordClose   = 5 // the reason; the last record
	recordRefused = 6 // an alert, see session.AlertFor; the last record
	recordSelf    = 7 // both ends have one node id; the last record
)

const (
	headerSize = 3 // kind, length of the body
	maxBody    = 16<<10 - headerSize
	// PingPeriod is the time without records from this end after which it sends a ping. The
	// layer above sends data every second, so pings are rare.
	PingPeriod = time.Second
	// RTTEvery is the number of ping periods between measurements of the round-trip time.
	RTTEvery = 10
)

var (
	// ErrNoDatagrams is the error of SendDatagram.
	ErrNoDatagrams = errors.New("a session through a hub carries no datagrams")
	// ErrNoStreams is the error of OpenStream.
	ErrNoStreams = errors.New("a session through a hub carries no streams beside control")
)

// link is the Carrier over a byte stream. It has two goroutines, listen and keep.
type link struct {
	conn  net.Conn
	tls   *tls.Conn
	idle  time.Duration
	began time.Time

	turn chan struct{} // write lock: contains a token while a goroutine writes; guards out
	out  []byte
	in   []byte // used only by listen

	control struct { // from listen to the reader of the control stream
		r *io.PipeReader
		w *io.PipeWriter
	}
	pong    chan [8]byte // pings of the peer that keep answers
	records atomic.Uint64
	written atomic.Uint64
	trip    atomic.Int64 // round-trip time, ns

	mu       sync.Mutex
	cause    error
	stopping chan struct{} // closed after cause is set
	finished chan struct{} // closed after conn is closed
	keepDone chan struct{} // closed at the end of keep
	done     chan struct{} // closed last
}

func newLink(conn net.Conn, over *tls.Conn, idle time.Duration) *link {
	l := &link{
		conn: conn, tls: over, idle: idle, began: time.Now(),
		turn: make(chan struct{}, 1), in: make([]byte, headerSize+maxBody), pong: make(chan [8]byte, 1),
		stopping: make(chan struct{}), finished: make(chan struct{}), keepDone: make(chan struct{}), done: make(chan struct{}),
	}
	l.control.r, l.control.w = io.Pipe()
	return l
}

// begin starts the goroutines, after the welcome.
func (l *link) begin() {
	go l.listen()
	go l.keep()
}

// listen reads records until the end. It then waits for keep and closes done.
func (l *link) listen() {
	err := l.readAll()
	if l.end(err) {
		l.finish()
	}
	<-l.finished
	<-l.keepDone
	close(l.done)
}

func (l *link) readAll() error {
	for {
		l.conn.SetReadDeadline(time.Now().Add(l.idle))
		kind, body, err := l.read()
		if err != nil {
			return causeOf(err)
		}
		l.records.Add(1)
		switch kind {
		case recordData:
			if _, err := l.control.w.Write(body); err != nil {
				return err // the session has ended
			}
		case recordClose:
			return &session.CloseError{Reason: session.Plain(string(body)), Remote: true}
		case recordPing:
			l.receivePing(body)
		case recordPong:
			l.receivePong(body)
		}
	}
}

// read returns the next record. The body is valid until the next call.
func (l *link) read() (kind byte, body []byte, err error) {
	if _, err := io.ReadFull(l.tls, l.in[:headerSize]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint16(l.in[1:]))
	if n > maxBody {
		return 0, nil, fmt.Errorf("record of %d bytes, at most %d", n, maxBody)
	}
	body = l.in[headerSize : headerSize+n]
	_, err = io.ReadFull(l.tls, body)
	return l.in[0], body, err
}

// receivePing makes keep answer a ping. listen must not write itself: if both ends blocked here
// until the other reads, neither would ever read.
func (l *link) receivePing(stamp []byte) {
	if len(stamp) != 8 {
		return
	}
	select {
	case l.pong <- [8]byte(stamp):
	default: // a ping is pending already: only one is answered
	}
}

func (l *link) receivePong(stamp []byte) {
	if len(stamp) == 8 {
		l.noteRTT(time.Since(l.began) - time.Duration(binary.BigEndian.Uint64(stamp)))
	}
}

// noteRTT stores a round-trip time. It ignores impossible values, since the peer may lie.
func (l *link) noteRTT(rtt time.Duration) {
	if rtt >= 0 && rtt <= l.idle {
		l.trip.Store(int64(max(rtt, 1)))
	}
}

// keep sends pings and answers those of the peer.
func (l *link) keep() {
	defer close(l.keepDone)
	tick := time.NewTicker(PingPeriod)
	defer tick.Stop()
	l.ping()
	for n, last := 1, uint64(0); ; {
		select {
		case stamp := <-l.pong:
			l.write(recordPong, stamp[:])
		case <-tick.C:
			if now := l.written.Load(); now == last || n%RTTEvery == 0 {
				l.ping()
			}
			n, last = n+1, l.written.Load()
		case <-l.stopping:
			return
		}
	}
}

func (l *link) ping() {
	l.write(recordPing, binary.BigEndian.AppendUint64(nil, uint64(time.Since(l.began))))
}

// write sends one record. It blocks while the peer does not read.
func (l *link) write(kind byte, body []byte) error {
	select {
	case <-l.stopping:
		return l.why()
	default:
	}
	select {
	case l.turn <- struct{}{}:
	case <-l.stopping:
		return l.why()
	}
	err := l.put(kind, body)
	<-l.turn
	if err != nil {
		return l.broken(causeOf(err))
	}
	return nil
}

// broken ends the session after a failed write. Before that it gives listen a moment to find the
// peer's reason among the received records.
func (l *link) broken(err error) error {
	if !session.Wait(l.stopping, session.CloseTimeout) && l.end(err) {
		l.finish()
	}
	return l.why()
}

// put writes one record. The caller must hold turn, except before begin.
func (l *link) put(kind byte, body []byte) error {
	l.out = binary.BigEndian.AppendUint16(append(l.out[:0], kind), uint16(len(body)))
	l.out = append(l.out, body...)
	_, err := l.tls.Write(l.out)
	l.written.Add(1)
	return err
}

// end sets the cause, unless it is set already. If it returns true, the caller must call finish.
func (l *link) end(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	l.cause = cause
	close(l.stopping)
	return true
}

// finish closes the connection and unblocks all blocked calls.
func (l *link) finish() {
	l.conn.Close()
	l.control.w.CloseWithError(l.why())
	close(l.finished)
}

func (l *link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

func (l *link) Kind() via.Kind { return via.Hub }

func (l *link) SendDatagram([]byte) error { return cmp.Or(l.why(), ErrNoDatagrams) }

func (l *link) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	return session.Next[[]byte](ctx, nil, l.done, l.Err)
}

func (l *link) OpenStream() (session.SendStream, error) { return nil, cmp.Or(l.why(), ErrNoStreams) }

func (l *link) AcceptStream(ctx context.Context) (session.ReceiveStream, error) {
	return session.Next[session.ReceiveStream](ctx, nil, l.done, l.Err)
}

func (l *link) MaxDatagram() int { return 0 }

func (l *link) Window() int { return 0 }

func (l *link) RTT() time.Duration { return time.Duration(l.trip.Load()) }

func (l *link) ReceivedPackets() uint64 { return l.records.Load() }

func (l *link) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

func (l *link) Err() error { return l.why() }

// Close sends a close record if the stream accepts it in time. Readers of the control stream get
// the error at once.
func (l *link) Close(reason string) {
	if !l.end(&session.CloseError{Reason: reason}) {
		return
	}
	l.control.w.CloseWithError(l.why())
	l.conn.SetWriteDeadline(time.Now().Add(session.CloseTimeout)) // also for a write in progress
	said := make(chan struct{})
	go func() { // finish unblocks it
		defer close(said)
		l.turn <- struct{}{}
		l.put(recordClose, []byte(reason))
		<-l.turn
	}()
	session.Wait(said, 2*session.CloseTimeout)
	l.finish()
}

// controlStream is the control stream of a link.
type controlStream struct{ l *link }

func (c controlStream) Read(b []byte) (int, error) { return c.l.control.r.Read(b) }

func (c controlStream) Write(b []byte) (written int, err error) {
	for len(b) > 0 {
		n := min(len(b), maxBody)
		if err := c.l.write(recordData, b[:n]); err != nil {
			return written, err
		}
		written, b = written+n, b[n:]
	}
	return written, nil
}
