package transport

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/transport/session"
)

// hubLab joins the endpoints of a lab by byte streams instead of their sockets.
type hubLab struct {
	air *air

	mu        sync.Mutex
	endpoints map[string]*Endpoint // key: address
}

// throughHub runs s over streams in virtual time.
func throughHub(s scenario) func(*testing.T) {
	return func(t *testing.T) {
		h := &hubLab{endpoints: make(map[string]*Endpoint)}
		inBubble(h.listen, func(t *testing.T, l *lab) {
			h.air = l.air
			s(t, l)
		})(t)
	}
}

// listen returns an endpoint that dials only through the hub, regardless of its socket.
func (h *hubLab) listen(conn net.PacketConn, cfg Config) (*Endpoint, error) {
	e, err := Listen(conn, cfg)
	if err != nil {
		return nil, err
	}
	e.quic = hubDoor{e.quic, h, e}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endpoints[e.localAddr().String()] = e
	return e, nil
}

// hubDoor replaces the QUIC protocol of an endpoint.
type hubDoor struct {
	protocol
	hub  *hubLab
	self *Endpoint
}

func (d hubDoor) Dial(ctx context.Context, addr net.Addr) (*session.Session, error) {
	d.hub.mu.Lock()
	other := d.hub.endpoints[addr.String()]
	d.hub.mu.Unlock()
	if other == nil {
		return nil, fmt.Errorf("nobody at %v", addr)
	}
	here, there := newFlow(d.hub.air, d.self.localAddr(), addr)
	other.AcceptOver(there)
	return d.self.hub.Dial(ctx, here)
}

// flow is one end of a byte stream in virtual time. Bytes arrive in order, after oneWay, but not while the air loses all
// packets. At most maxFlow bytes are in transit.
type flow struct {
	in, out     *flowHalf
	remote      net.Addr
	read, write flowDeadline
}

const maxFlow = 64 << 10

// flowHalf is one direction.
type flowHalf struct {
	air *air

	mu       sync.Mutex
	bytes    bytes.Buffer // arrived
	onWay    int
	queue    []func()      // pending arrivals in order, since timers of the same time fire in any order
	shut     bool          // the writer has closed it
	isShut   bool          // shut, and all data has arrived
	closed   bool          // the reader has closed it
	isClosed bool          // closed, and the writer has been notified
	moved    chan struct{} // closed at the next change
}

func newFlow(a *air, dialler, acceptor net.Addr) (net.Conn, net.Conn) {
	there, back := &flowHalf{air: a, moved: make(chan struct{})}, &flowHalf{air: a, moved: make(chan struct{})}
	return &flow{in: back, out: there, remote: acceptor}, &flow{in: there, out: back, remote: dialler}
}

// flowDeadline is a time after which calls fail.
type flowDeadline struct {
	mu    sync.Mutex
	at    time.Time
	moved chan struct{} // closed when at changes
}

func (d *flowDeadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = at
	if d.moved != nil {
		close(d.moved)
		d.moved = nil
	}
}

func (d *flowDeadline) get() (time.Time, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.moved == nil {
		d.moved = make(chan struct{})
	}
	return d.at, d.moved
}

// change calls do and wakes waiting calls.
func (h *flowHalf) change(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
	close(h.moved)
	h.moved = make(chan struct{})
}

// wait calls try until it returns true.
func (h *flowHalf) wait(d *flowDeadline, try func() bool) error {
	for {
		at, reset := d.get()
		h.mu.Lock()
		done, moved := try(), h.moved
		h.mu.Unlock()
		if done {
			return nil
		}
		var late <-chan time.Time
		if !at.IsZero() {
			timer := time.NewTimer(time.Until(at))
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-moved:
		case <-reset:
		case <-late:
			return os.ErrDeadlineExceeded
		}
	}
}

func (f *flow) Read(b []byte) (n int, err error) {
	late := f.in.wait(&f.read, func() bool {
		switch {
		case f.in.closed:
			err = net.ErrClosed
		case f.in.bytes.Len() > 0:
			n, err = f.in.bytes.Read(b)
		case f.in.isShut:
			err = io.EOF
		default:
			return false
		}
		return true
	})
	if late != nil {
		return 0, late
	}
	f.in.change(func() {})
	return n, err
}

func (f *flow) Write(b []byte) (written int, err error) {
	for written < len(b) {
		late := f.out.wait(&f.write, func() bool {
			switch room := maxFlow - f.out.onWay - f.out.bytes.Len(); {
			case f.out.shut || f.out.isClosed:
				err = net.ErrClosed
			case room > 0:
				part := bytes.Clone(b[written:min(len(b), written+room)])
				written += len(part)
				f.out.onWay += len(part)
				f.out.arrive(func() {
					f.out.onWay -= len(part)
					f.out.bytes.Write(part)
				})
			default:
				return false
			}
			return true
		})
		if late != nil || err != nil {
			return written, cmp.Or(late, err)
		}
	}
	return written, nil
}

// arrive calls do when bytes sent now would arrive, unless they are lost. mu must be held.
func (h *flowHalf) arrive(do func()) {
	h.air.mu.Lock()
	lost := h.air.loss == 1
	h.air.mu.Unlock()
	if lost {
		return
	}
	h.queue = append(h.queue, do)
	time.AfterFunc(oneWay, func() {
		h.change(func() {
			h.queue[0]()
			h.queue = h.queue[1:]
		})
	})
}

func (f *flow) Close() error {
	f.in.change(func() {
		f.in.closed = true
		f.in.arrive(func() { f.in.isClosed = true })
	})
	f.out.change(func() {
		f.out.shut = true
		f.out.arrive(func() { f.out.isShut = true })
	})
	return nil
}

func (f *flow) SetDeadline(t time.Time) error {
	f.read.set(t)
	f.write.set(t)
	return nil
}

func (f *flow) SetReadDeadline(t time.Time) error { f.read.set(t); return nil }

func (f *flow) SetWriteDeadline(t time.Time) error { f.write.set(t); return nil }

func (f *flow) LocalAddr() net.Addr { return f.remote }

func (f *flow) RemoteAddr() net.Addr { return f.remote }
