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
	// pipeWindow is the result of Window: more than the queue holds, so that only the
	// sender's own rules limit it.
	pipeWindow = 1 << 20
	pipeRTT    = 100 * time.Microsecond
	// pipeSlab is the size of the memory blocks from which datagrams are allocated.
	pipeSlab = 256 << 10
)

// Pipe returns the two ends of a session without a network, for tests and benchmarks. The first
// is the session of a, which has dialled and whose Peer is b; the second is that of b. It
// keeps the contract of a Session over the network. Datagrams are lost only if the peer's
// queue is full. All data arrives at once. There is no goroutine and no clock.
//
// SendDatagram and ReceiveDatagram do not allocate for each datagram. They allocate one block
// of 256 KiB for at least 218 datagrams, which is freed when no datagram of the block is in use.
func Pipe(a, b trust.Peer) (*Session, *Session) {
	p := &pipe{}
	p.changed.L = &p.mu
	left, right := newPipeEnd(p, "left"), newPipeEnd(p, "right")
	left.other, right.other = right, left
	there, back := newPipeStream(left), newPipeStream(right)
	return New(Params{Carrier: left, Control: pipeControl{back, there}, Done: left.done, Peer: b, Dialled: true}),
		New(Params{Carrier: right, Control: pipeControl{there, back}, Done: right.done, Peer: a})
}

// pipe is the state that both ends share.
type pipe struct {
	mu      sync.Mutex
	changed sync.Cond // signals a change of a stream or the end of the session; its L is mu
}

// pipeEnd is the Carrier of one end.
type pipeEnd struct {
	pipe     *pipe
	other    *pipeEnd
	addr     pipeAddr
	done     chan struct{} // closed after cause is set
	received chan []byte
	arrivals chan *pipeStream // has room for all streams that the other end may open
	queries  atomic.Uint64    // number of calls of Heard

	// Guarded by pipe.mu.
	cause error
	slab  []byte // unused rest of the current block
	open  int    // streams that this end opened and that are not over
}

func newPipeEnd(p *pipe, addr pipeAddr) *pipeEnd {
	return &pipeEnd{
		pipe:     p,
		addr:     addr,
		done:     make(chan struct{}),
		received: make(chan []byte, DatagramQueue),
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
	if len(e.other.received) == DatagramQueue {
		return nil // lost without an error
	}
	if len(e.slab) < len(b) {
		e.slab = make([]byte, pipeSlab)
	}
	d := e.slab[:len(b):len(b)]
	e.slab = e.slab[len(b):]
	copy(d, b)
	e.other.received <- d // does not block: only this end sends, under pipe.mu
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
	// This does not block, since only accepted streams can be over.
	e.other.arrivals <- s
	return pipeSendStream{s}, nil
}

func (e *pipeEnd) AcceptStream(ctx context.Context) (ReceiveStream, error) {
	s, err := NextUnlessOver(ctx, e.arrivals, e.done, e.Err) // streams that were not accepted end with the session
	if err != nil {
		return nil, err
	}
	return pipeReceiveStream{s}, nil
}

func (e *pipeEnd) MaxDatagram() int { return pipeDatagram }

func (e *pipeEnd) Window() int { return pipeWindow }

// ReceivedPackets grows with each call, since a pipe cannot be cut.
func (e *pipeEnd) ReceivedPackets() uint64 { return e.queries.Add(1) }

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

// pipeAddr is the net.Addr of an end of a pipe.
type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }
