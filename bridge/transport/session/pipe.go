package session

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"achbridge/bridge/trust"
	"achbridge/bridge/via"
)

const (
	// pipeDatagram is the largest datagram of a pipe, in bytes.
	pipeDatagram = 1200
	// pipeQueue is how many datagrams wait to be received, as many as over QUIC.
	pipeQueue = 128
	// pipeWindow is the result of Window: more than the queue holds, so that only the
	// sender's own rules limit it.
	pipeWindow = 1 << 20
	pipeRTT    = 100 * time.Microsecond
	// pipeSlab is the size of the pieces of memory from which datagrams are cut.
	pipeSlab = 256 << 10
)

// Pipe returns the two ends of a session without a network. Tests and benchmarks of
// the packages above use it: the first is a's (its Peer is b, and it
// dialled), the second b's. It keeps the contract of a Session over the network,
// with these properties: nothing is lost but datagrams for which the peer's queue
// is full, everything arrives at once, there is no goroutine, and no clock.
//
// Of datagrams, neither SendDatagram nor ReceiveDatagram allocates, but for one
// piece of 256 KiB for every 218 datagrams or more, which is theirs as long as
// somebody keeps one of them.
func Pipe(a, b trust.Peer) (*Session, *Session) {
	p := &pipe{}
	p.changed.L = &p.mu
	left, right := newPipeEnd(p, "left"), newPipeEnd(p, "right")
	left.other, right.other = right, left
	there, back := newPipeStream(left), newPipeStream(right)
	return New(Params{Carrier: left, Control: pipeControl{back, there}, Done: left.done, Peer: b, Dialled: true}),
		New(Params{Carrier: right, Control: pipeControl{there, back}, Done: right.done, Peer: a})
}

// pipe is what both ends share.
type pipe struct {
	mu      sync.Mutex
	changed sync.Cond // some stream, or the end of the session; its L is mu
}

// pipeEnd is one end's carrier.
type pipeEnd struct {
	pipe     *pipe
	other    *pipeEnd
	addr     pipeAddr
	done     chan struct{} // closed after cause is set
	received chan []byte
	arrivals chan *pipeStream // has room for all that the other end may open
	asked    atomic.Uint64    // times that heard was called

	// Under pipe.mu.
	cause error
	slab  []byte // what is left of it
	open  int    // streams of ours that are not over
}

func newPipeEnd(p *pipe, addr pipeAddr) *pipeEnd {
	return &pipeEnd{
		pipe:     p,
		addr:     addr,
		done:     make(chan struct{}),
		received: make(chan []byte, pipeQueue),
		arrivals: make(chan *pipeStream, MaxStreams),
	}
}

func (e *pipeEnd) Kind() via.Kind { return via.Pipe }

func (e *pipeEnd) SendDatagram(b []byte) error {
	if len(b) > pipeDatagram {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(b), pipeDatagram)
	}
	e.pipe.mu.Lock()
	defer e.pipe.mu.Unlock()
	if e.cause != nil {
		return e.cause
	}
	if len(e.other.received) == pipeQueue {
		return nil // lost, and nobody is told
	}
	if len(e.slab) < len(b) {
		e.slab = make([]byte, pipeSlab)
	}
	d := e.slab[:len(b):len(b)]
	e.slab = e.slab[len(b):]
	copy(d, b)
	e.other.received <- d // there is room: nobody else sends
	return nil
}

func (e *pipeEnd) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	return NextOrQueued(ctx, e.received, e.done, e.Err)
}

func (e *pipeEnd) OpenStream() (SendStream, error) {
	e.pipe.mu.Lock()
	defer e.pipe.mu.Unlock()
	if e.cause != nil {
		return nil, e.cause
	}
	if e.open == MaxStreams {
		return nil, ErrStreamLimit
	}
	e.open++
	s := newPipeStream(e)
	// There is room, since only what was accepted can be over.
	e.other.arrivals <- s
	return pipeSendStream{s}, nil
}

func (e *pipeEnd) AcceptStream(ctx context.Context) (ReceiveStream, error) {
	s, err := NextUnlessOver(ctx, e.arrivals, e.done, e.Err) // what nobody accepted ends with the session
	if err != nil {
		return nil, err
	}
	return pipeReceiveStream{s}, nil
}

func (e *pipeEnd) MaxDatagram() int { return pipeDatagram }

func (e *pipeEnd) Window() int { return pipeWindow }

// Heard grows with each call, since a pipe cannot be cut.
func (e *pipeEnd) Heard() uint64 { return e.asked.Add(1) }

func (e *pipeEnd) RTT() time.Duration { return pipeRTT }

func (e *pipeEnd) RemoteAddr() net.Addr { return e.other.addr }

func (e *pipeEnd) Err() error {
	e.pipe.mu.Lock()
	defer e.pipe.mu.Unlock()
	return e.cause
}

func (e *pipeEnd) Close(reason string) {
	e.pipe.mu.Lock()
	defer e.pipe.mu.Unlock()
	if e.cause != nil {
		return
	}
	e.cause = &CloseError{Reason: reason}
	e.other.cause = &CloseError{Reason: reason, Remote: true}
	close(e.done)
	close(e.other.done)
	e.pipe.changed.Broadcast()
}

// pipeAddr is an end of a pipe.
type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }
