package sctp

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/via"
)

// path carries the packets of one association between the shared socket and a DTLS connection,
// and is the net.PacketConn of that connection. Neither direction blocks other associations: if
// a queue is full, the packet is dropped, as in a network.
type path struct {
	socket  *socket
	key     pathKey
	shim    shim // shim of the packets that it sends in the handshake
	id      cid  // connection id of the packets that arrive for it
	cookies chan proof
	in      chan addressedPacket
	closed  chan struct{}
	once    sync.Once
	// isKnown is set when the peer's certificate is accepted. Until then we process at most
	// allowance bytes from the peer. allowance belongs to the socket's reader.
	isKnown   atomic.Bool
	byteLimit int
	// sealed is set when the peer has keys and knows that we have them. From then on plaintext
	// packets are not from the peer.
	sealed atomic.Bool
	// leaving makes the next packet, an abort, the last one. If an alert followed, the peer's
	// DTLS would drop the abort.
	leaving atomic.Bool
	// alert is the alert for the peer if its certificate is refused, else 0.
	alert atomic.Uint32
	link  atomic.Pointer[link] // nil during the handshake
	dscp  atomic.Uint32        // mark of the packets, a via.DSCP

	mu      sync.Mutex
	address peerAddress
	expired chan struct{} // closed while the read deadline is in the past
	goodbye []byte        // the last packet, which may be repeated
	theirs  cid           // connection id of the packets that it sends, zero until it has one
}

// pathKey identifies a handshake. addr is empty for handshakes that we began.
type pathKey struct {
	addr    string
	attempt attemptID
}

// addressedPacket is a packet with its source or destination.
type addressedPacket struct {
	b    []byte
	addr net.Addr
	dscp via.DSCP // mark to send it with; zero for a received packet
}

const (
	// pathQueue is the maximum number of packets that wait for the goroutine that decrypts them.
	pathQueue = 256
	// unknownPeerByteLimit is the maximum number of bytes that an unknown peer may send. A complete handshake
	// needs less than 2000. Without the limit a DTLS stack would buffer megabytes of fragments.
	unknownPeerByteLimit = 32 << 10
)

func newPath(s *socket, key pathKey, sh shim, peer net.Addr) *path {
	return &path{
		socket: s, key: key, shim: sh, id: randomCID(),
		cookies: make(chan proof, 1), in: make(chan addressedPacket, pathQueue),
		closed: make(chan struct{}), expired: make(chan struct{}), byteLimit: unknownPeerByteLimit,
		address: peerAddress{proved: peer},
	}
}

// deliver queues a packet from the socket's reader.
func (p *path) deliver(b []byte, from net.Addr) {
	if p.sealed.Load() && !sealed(b) {
		return
	}
	if !p.isKnown.Load() {
		if p.byteLimit -= len(b); p.byteLimit < 0 {
			return
		}
	}
	select {
	case p.in <- addressedPacket{b: append([]byte(nil), b...), addr: from}:
	default:
	}
}

// ReadFrom returns the next packet. DTLS has then finished with the previous one.
func (p *path) ReadFrom(b []byte) (int, net.Addr, error) {
	if l := p.link.Load(); l != nil {
		l.follow()
	}
	p.mu.Lock()
	expired := p.expired
	p.mu.Unlock()
	select {
	case packet := <-p.in:
		return copy(b, packet.b), packet.addr, nil
	case <-p.closed:
		return 0, nil, net.ErrClosed
	case <-expired:
		return 0, nil, os.ErrDeadlineExceeded
	}
}

// WriteTo sends a copy of b to the peer's address. It ignores the address that DTLS passes,
// which may be a different one.
func (p *path) WriteTo(b []byte, _ net.Addr) (int, error) {
	var packet []byte
	n := len(b)
	b = p.judge(plainAlert(b))
	if theirs, ok := findCID(b); ok {
		p.mu.Lock()
		p.theirs = theirs
		p.mu.Unlock()
	}
	if b[0] != recordCID {
		packet = appendShim(make([]byte, 0, shimSize+len(b)), p.shim)
	}
	packet = append(packet, b...)
	if p.leaving.Load() {
		p.mu.Lock()
		said := p.goodbye != nil
		if !said {
			p.goodbye = packet
		}
		p.mu.Unlock()
		if said {
			return n, nil
		}
	}
	p.socket.queue(addressedPacket{packet, p.destination(), via.DSCP(p.dscp.Load())})
	return n, nil
}

// plainAlert unwraps an alert that pion/dtls sends in the middle of a handshake. pion/dtls
// puts it, in plaintext, into a record with a connection id, which the other end cannot read.
// plainAlert returns any other packet unchanged.
func plainAlert(b []byte) []byte {
	const size = cidOffset + cidSize + 2 + 3 // an alert has a level, a description and its inner type
	if _, ok := parseCID(b); !ok || len(b) != size || b[3] != 0 || b[4] != 0 {
		return b
	}
	alert := append([]byte{b[size-1]}, b[1:cidOffset]...)
	return append(alert, 0, 2, b[size-3], b[size-2])
}

// judge replaces the alert bad_certificate of pion/dtls by one with the reason for the refusal.
func (p *path) judge(b []byte) []byte {
	const size = cidOffset + 2 + 2
	if alert := p.alert.Load(); alert != 0 && len(b) == size && b[0] == recordAlert && b[size-1] == session.AlertBad {
		return append(b[:size-1:size-1], byte(alert))
	}
	return b
}

// outgoing returns the connection id that our packets carry.
func (p *path) outgoing() cid {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.theirs
}

// lastWord returns the goodbye, or nil if none was sent.
func (p *path) lastWord() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.goodbye
}

// Close ends the path. Packets that arrive later are dropped, or answered by the goodbye.
func (p *path) Close() error {
	p.once.Do(func() {
		p.socket.forget(p)
		close(p.closed)
	})
	return nil
}

// SetReadDeadline handles only the zero time and times in the past, since no others are used.
func (p *path) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	past := false
	select {
	case <-p.expired:
		past = true
	default:
	}
	switch {
	case t.IsZero() && past:
		p.expired = make(chan struct{})
	case !t.IsZero() && !past:
		close(p.expired)
	}
	return nil
}

// SetWriteDeadline does nothing: no write blocks.
func (p *path) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is the same as SetReadDeadline.
func (p *path) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

// LocalAddr returns the address of the socket.
func (p *path) LocalAddr() net.Addr { return p.socket.conn.LocalAddr() }
