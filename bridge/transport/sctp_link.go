package transport

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

// sctpLink is the carrier over SCTP.
type sctpLink struct {
	p      *sctpProtocol
	path   *sctpPath
	conn   *dtls.Conn
	assoc  *sctp.Association
	mtu    int              // sctpMTU or sctpNarrow
	header [sctpHeader]byte // of our packets
	token  proof            // the peer sends it when it has forgotten the session

	datagrams *sctp.Stream
	words     *sctp.Stream // see sctp_stream.go
	received  chan []byte
	control   sctpControl
	arrivals  chan *sctpReceiveStream // has room for all that the peer may open
	backlog   sctpBacklog
	writing   sync.Mutex // held while a packet is written

	ending chan struct{} // closed once cause is set
	done   chan struct{} // closed when nothing of the link runs any more
	wg     sync.WaitGroup

	mu        sync.Mutex
	changed   sync.Cond // L is mu: anything below
	cause     error
	packets   uint64 // that have come
	lastCame  time.Time
	srtt      time.Duration
	timed     bool            // by a heartbeat
	beatNonce [nonceSize]byte // of the last heartbeat
	beatAt    time.Time
	beating   bool // it is under way
	queued    int  // datagrams that SCTP has not sent yet
	inQueue   int  // their bytes
	streams   sctpStreams
	forward   sctpForward
}

const (
	// sctpPayload is the largest message that goes in one packet, in bytes, on a path
	// that carries packets as over QUIC.
	sctpPayload = (sctpMTU - sctpHeader - dataHeader) &^ 3
	// sctpMTU is the size of an SCTP packet then: without the DTLS record (13 header, 8
	// connection id, 8 nonce, 1 type, 16 tag). sctpNarrow is it elsewhere: what IPv4
	// delivers everywhere, 576 bytes with its header and UDP's (RFC 1122 section 3.3.2).
	sctpMTU    = session.PacketSize - sealSize
	sctpNarrow = 576 - 28 - sealSize
	sealSize   = 46

	// sctpWindow is the least congestion window, in bytes. See sctpOptions.
	sctpWindow = 1 << 20
	// sctpBuffer is how many bytes a peer may have us hold that have arrived.
	sctpBuffer = 2 << 20
	// sctpRTO is the retransmission timer.
	sctpRTO = 500 * time.Millisecond

	// shortQueue is how many datagrams wait in SCTP before SendDatagram blocks.
	shortQueue = 32
	// linkQueue is how many datagrams wait to be received, as many as over QUIC.
	linkQueue = 128

	// Stream numbers, the same in each direction.
	controlNumber   = 0
	datagramNumber  = 1
	wordsNumber     = 2
	firstNumber     = 3
	datagramFormat  = 0xac01 // payload protocol ids: a datagram,
	noBytesFormat   = 0xac02 // and one of no bytes, which SCTP cannot carry
	streamFormat    = 0xac03 // see sctp_stream.go
	streamEndFormat = 0xac04
	streamCutFormat = 0xac05
	wordFormat      = 0xac06
)

// sctpOptions say how the library runs an association. They keep its congestion
// control from doing what is done above it, or badly:
//
//   - MinCwnd holds the window open at 1 MiB, whatever is lost: the layer above paces
//     datagrams, and streams have an sctpFlight. (FastRtxWnd and CwndCAStep say how the
//     window recovers and grows, so they never matter.) With 1 % random loss, 50 Mbit/s
//     and 20 ms of round trip, 1150 bytes every 600 us are 10.2 ms old on arrival, as
//     without loss. Over QUIC they are 44 ms old, since NewReno halves its window for each
//     loss. Session.Window is this window minus the bytes that wait in SCTP already
//     (BufferedAmount minus the bytes under way).
//   - RTOMax is the retransmission timer. The library computes at least one second
//     (RFC 9260 RTO.Min), and then takes the lesser of that and RTOMax: so 500 ms,
//     always. It costs at most one needless copy on a slower path, and serves
//     streams alone: a datagram is sent once (Rexmit 0; timed reliability does not
//     bound the age in this library).
//   - Zero checksum (RFC 9653), as DTLS has a better one.
//   - No interleaving: no message is longer than a packet, and DATA has four bytes
//     less than I-DATA.
//
// The library has neither heartbeats that work nor an end for silent peers; watch does both.
// sctp_ack.go holds back packets that the library sends too often.
func sctpOptions(conn net.Conn, mtu int) []sctp.ClientOption {
	return []sctp.ClientOption{
		sctp.WithNetConn(conn),
		sctp.WithLoggerFactory(silentLogs()),
		sctp.WithMTU(uint32(mtu)),
		sctp.WithEnableZeroChecksum(true),
		sctp.WithEnableInterleaving(false),
		sctp.WithMaxReceiveBufferSize(sctpBuffer),
		sctp.WithMinCwnd(sctpWindow),
		sctp.WithRTOMax(float64(sctpRTO.Milliseconds())),
	}
}

// newSCTPLink starts the association that both hellos have described.
func newSCTPLink(m *sctpMeeting, conn *dtls.Conn, h hello, rtt time.Duration) (*sctpLink, error) {
	l := &sctpLink{
		p: m.p, path: m.path, conn: conn, mtu: m.mtu,
		header:   headerTo(h.init),
		token:    h.reset,
		received: make(chan []byte, linkQueue),
		arrivals: make(chan *sctpReceiveStream, session.MaxStreams),
		ending:   make(chan struct{}), done: make(chan struct{}),
		lastCame: time.Now(), srtt: rtt,
	}
	l.changed.L = &l.mu
	tap := &sctpTap{Conn: conn, link: l}
	if m.path.key.addr != "" {
		tap.answer = m.ownHello(m.mtu)
	}
	l.streams.init(l)
	var err error
	l.assoc, err = sctp.ClientContext(context.Background(), append(sctpOptions(tap, l.mtu), sctp.WithSNAP(m.token, h.init))...)
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
func (l *sctpLink) begin() error {
	var control *sctp.Stream
	for _, s := range []struct {
		number uint16
		stream **sctp.Stream
	}{{controlNumber, &control}, {datagramNumber, &l.datagrams}, {wordsNumber, &l.words}} {
		var err error
		if *s.stream, err = l.assoc.OpenStream(s.number, 0); err != nil {
			return fmt.Errorf("association: %w", err)
		}
	}
	l.datagrams.SetReliabilityParams(true, sctp.ReliabilityTypeRexmit, 0)
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

// run watches the link until it ends, and then frees all that it uses.
func (l *sctpLink) run() {
	l.watch()
	l.mu.Lock()
	cause := l.cause
	l.mu.Unlock()
	if e, ok := errors.AsType[*CloseError](cause); ok && !e.Remote {
		l.assoc.Abort(e.Reason) // bounded, as the path never blocks
	}
	l.assoc.Close()
	l.conn.Close()
	l.path.Close()
	l.wg.Wait()
	if wait := l.forward.wait; wait != nil { // nobody makes another
		wait.Stop()
	}
	l.p.socket.unexpect(l.token)
	l.p.leave(l)
	close(l.done)
}

// end ends the link. The cause of the first call is kept.
func (l *sctpLink) end(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(cause)
}

func (l *sctpLink) endLocked(cause error) {
	if l.cause != nil {
		return
	}
	l.cause = cause
	close(l.ending)
	l.changed.Broadcast()
}

// broke ends the link after its association has failed. The reason is that of the peer's
// goodbye, if there was one.
func (l *sctpLink) broke(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, dtls.ErrConnClosed) {
		l.end(&CloseError{Remote: true})
		return
	}
	l.end(fmt.Errorf("association: %w", err))
}

func (l *sctpLink) Kind() via.Kind { return via.SCTP }

func (l *sctpLink) RTT() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.srtt
}

func (l *sctpLink) Heard() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.packets
}

func (l *sctpLink) RemoteAddr() net.Addr { return l.path.peerAddr() }

// fault is why the link ends.
func (l *sctpLink) fault() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

func (l *sctpLink) Err() error {
	select {
	case <-l.done:
		return l.fault()
	default:
		return nil
	}
}

func (l *sctpLink) Close(reason string) { l.end(&CloseError{Reason: reason}) }
