package sctp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/via"

	"github.com/pion/dtls/v3"
	"github.com/pion/sctp"
)

// link is the Carrier over SCTP.
type link struct {
	p      *Protocol
	path   *path
	conn   *dtls.Conn
	assoc  *sctp.Association
	mtu    int                // wideMTU or narrowMTU
	header [commonHeader]byte // common header of our packets
	token  proof              // reset token: the peer sends it if it has lost the session

	datagrams datagrams
	backlog   backlog
	writing   sync.Mutex // held while a packet is written

	stopping chan struct{} // closed once cause is set
	done     chan struct{} // closed when no goroutine of the link runs any more
	wg       sync.WaitGroup

	mu       sync.Mutex
	changed  sync.Cond // signals changes of the fields below or of datagrams.queued; its L is mu
	cause    error
	received received
	trip     roundTrip
	streams  streams
	forward  ackState
}

const (
	// maxPayload is the largest message that fits in one packet, in bytes, on a path that
	// carries packets of the same size as over QUIC.
	maxPayload = (wideMTU - commonHeader - dataHeader) &^ 3
	// wideMTU is the size of an SCTP packet on such a path, without the DTLS record (13 header,
	// 8 connection id, 8 nonce, 1 type, 16 tag). narrowMTU is the size on other paths: every
	// IPv4 path carries 576 bytes with IP and UDP headers (RFC 1122 section 3.3.2).
	wideMTU   = session.PacketSize - sealSize
	narrowMTU = 576 - 28 - sealSize
	sealSize  = 46

	// minWindow is the minimum congestion window, in bytes. See associationOptions.
	minWindow = 1 << 20
	// receiveBuffer is the maximum number of bytes of a peer that have arrived and are not read.
	receiveBuffer = 2 << 20
	// retransmitTimeout is the period of the retransmission timer.
	retransmitTimeout = 500 * time.Millisecond

	// shortQueue is the number of datagrams that wait in SCTP before SendDatagram blocks.
	shortQueue = 32

	// Stream numbers, the same in each direction.
	controlNumber   = 0
	datagramNumber  = 1
	wordsNumber     = 2
	firstNumber     = 3
	datagramFormat  = 0xac01 // payload protocol id of a datagram
	noBytesFormat   = 0xac02 // an empty datagram, which SCTP cannot carry itself
	streamFormat    = 0xac03 // see stream.go
	streamEndFormat = 0xac04
	streamCutFormat = 0xac05
	wordFormat      = 0xac06
)

// associationOptions returns the options of an association. They disable the parts of the
// library's congestion control that the layer above does instead, or does better:
//
//   - MinCwnd keeps the window at 1 MiB or more, regardless of loss: the layer above paces
//     datagrams, and streams have a congestion window. (FastRtxWnd and CwndCAStep control how
//     the window recovers and grows, so they have no effect.) With 1 % random loss, 50 Mbit/s
//     and 20 ms of round trip, 1150 bytes every 600 us are 10.2 ms old on arrival, as
//     without loss. Over QUIC they are 44 ms old, since NewReno halves its window for each
//     loss. Session.Window is this window minus the bytes that wait in SCTP
//     (BufferedAmount minus the bytes in flight).
//   - RTOMax is the retransmission timer. The library computes at least one second (RFC
//     9260 RTO.Min), and then uses the minimum of that and RTOMax, which is always 500 ms.
//     On a slower path this causes at most one unnecessary copy. It applies only to
//     streams: a datagram is sent once (Rexmit 0; timed reliability does not bound the age
//     in this library).
//   - Zero checksum (RFC 9653), since DTLS has a better one.
//   - No interleaving: no message is longer than a packet, and a DATA header has four bytes
//     less than an I-DATA header.
//
// The library has no useful heartbeats and no timeout for silent peers; watch does both.
// ack.go delays packets that the library sends too often.
func associationOptions(conn net.Conn, mtu int) []sctp.ClientOption {
	return []sctp.ClientOption{
		sctp.WithNetConn(conn),
		sctp.WithLoggerFactory(silentLogs()),
		sctp.WithMTU(uint32(mtu)),
		sctp.WithEnableZeroChecksum(true),
		sctp.WithEnableInterleaving(false),
		sctp.WithMaxReceiveBufferSize(receiveBuffer),
		sctp.WithMinCwnd(minWindow),
		sctp.WithRTOMax(float64(retransmitTimeout.Milliseconds())),
	}
}

// newLink starts the association with the parameters of both hellos.
func newLink(m *handshake, conn *dtls.Conn, h hello, rtt time.Duration) (*link, error) {
	l := &link{
		p: m.p, path: m.path, conn: conn, mtu: m.mtu,
		header:    headerTo(h.init),
		token:     h.reset,
		datagrams: datagrams{received: make(chan []byte, session.DatagramQueue)},
		stopping:  make(chan struct{}), done: make(chan struct{}),
		received: received{lastAt: time.Now()}, trip: roundTrip{smoothed: rtt},
	}
	l.changed.L = &l.mu
	tap := &tap{Conn: conn, link: l}
	if m.path.key.addr != "" {
		tap.answer = m.ownHello(m.mtu)
	}
	l.streams.init(l)
	var err error
	l.assoc, err = sctp.ClientContext(context.Background(), append(associationOptions(tap, l.mtu), sctp.WithSNAP(m.token, h.init))...)
	if err != nil {
		return nil, fmt.Errorf("association: %w", err)
	}
	if err := l.begin(); err != nil {
		l.assoc.Close()
		l.wg.Wait()
		return nil, err
	}
	return l, nil
}

// begin starts the link's goroutines.
func (l *link) begin() error {
	var control *sctp.Stream
	for _, s := range []struct {
		number uint16
		stream **sctp.Stream
	}{{controlNumber, &control}, {datagramNumber, &l.datagrams.stream}, {wordsNumber, &l.streams.words}} {
		var err error
		if *s.stream, err = l.assoc.OpenStream(s.number, 0); err != nil {
			return fmt.Errorf("association: %w", err)
		}
	}
	l.datagrams.stream.SetReliabilityParams(true, sctp.ReliabilityTypeRexmit, 0)
	if err := l.p.enter(l); err != nil {
		return err
	}
	l.p.socket.expect(l.token, l)
	l.path.link.Store(l)
	l.mu.Lock()
	l.streams.attach(&l.streams.tracks[0], control)
	l.mu.Unlock()
	l.wg.Go(l.receive)
	l.wg.Go(l.listen)
	l.wg.Go(l.accept)
	go l.run()
	return nil
}

// run watches the link until it ends, and then frees its resources.
func (l *link) run() {
	l.watch()
	l.mu.Lock()
	cause := l.cause
	l.mu.Unlock()
	if e, ok := errors.AsType[*session.CloseError](cause); ok && !e.Remote {
		l.assoc.Abort(e.Reason) // bounded, as the path never blocks
	}
	l.assoc.Close()
	l.conn.Close()
	l.path.Close()
	l.wg.Wait()
	if wait := l.forward.wait; wait != nil { // no other timer is started once cause is set
		wait.Stop()
	}
	l.p.socket.unexpect(l.token)
	l.p.leave(l)
	close(l.done)
}

// end ends the link. Only the cause of the first call is kept.
func (l *link) end(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(cause)
}

func (l *link) endLocked(cause error) {
	if l.cause != nil {
		return
	}
	l.cause = cause
	close(l.stopping)
	l.changed.Broadcast()
}

// broke ends the link after its association has failed. The cause is the peer's goodbye, if
// there was one.
func (l *link) broke(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, dtls.ErrConnClosed) {
		l.end(&session.CloseError{Remote: true})
		return
	}
	l.end(fmt.Errorf("association: %w", err))
}

func (l *link) Kind() via.Kind { return via.SCTP }

// SetDSCP sets the mark of the link's packets, also after the peer's address has changed.
func (l *link) SetDSCP(d via.DSCP) { l.path.dscp.Store(uint32(d)) }

func (l *link) DSCP() via.DSCP {
	if !l.p.socket.canMark() {
		return via.CS0
	}
	return via.DSCP(l.path.dscp.Load())
}

func (l *link) RTT() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trip.smoothed
}

func (l *link) ReceivedPackets() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.received.packets
}

func (l *link) RemoteAddr() net.Addr { return l.path.peerAddr() }

// Err returns the cause of the link's end, nil before.
func (l *link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

func (l *link) Close(reason string) { l.end(&session.CloseError{Reason: reason}) }
