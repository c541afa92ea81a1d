package transport

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"achbridge/bridge/transport/session"
)

// Listen must accept any net.PacketConn with any kind of address, so that tests can use any
// network.
func TestListenAcceptsAnyPacketConn(t *testing.T) {
	listen := func(conn net.PacketConn, cfg Config) (*Endpoint, error) {
		return Listen(seatConn{conn.(*simnet.SimConn)}, cfg)
	}
	inBubble(listen, func(t *testing.T, l *lab) {
		robot, pc := l.pair(t)
		if err := pc.SendDatagram([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if got, err := receive(t, robot); err != nil || string(got) != "hello" {
			t.Errorf("receive: got %q, %v", got, err)
		}
		if got, want := robot.RemoteAddr(), seat("10.0.0.2:8076"); got != want {
			t.Errorf("remote address: got %v, want %v", got, want)
		}
	})(t)
}

// seat is an address of an invented network.
type seat string

func (seat) Network() string  { return "theatre" }
func (s seat) String() string { return string(s) }

type seatConn struct{ *simnet.SimConn }

func (c seatConn) LocalAddr() net.Addr { return seat(c.SimConn.LocalAddr().String()) }

func (c seatConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, addr, err := c.SimConn.ReadFrom(b)
	if err != nil {
		return n, nil, err
	}
	return n, seat(addr.String()), nil
}

func (c seatConn) WriteTo(b []byte, to net.Addr) (int, error) {
	return c.SimConn.WriteTo(b, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to.String())))
}

// A socket whose network card is stuck blocks its writers.
func TestEndpointClosesDespiteStuckSocket(t *testing.T) {
	var stuck atomic.Bool
	listen := func(conn net.PacketConn, cfg Config) (*Endpoint, error) {
		return Listen(&stuckConn{SimConn: conn.(*simnet.SimConn), stuck: &stuck, free: make(chan struct{})}, cfg)
	}
	inBubble(listen, func(t *testing.T, l *lab) {
		robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
		_, pc := l.join(t, robotEnd, pcEnd)
		dialCtx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stuck.Store(true)
		var dialling sync.WaitGroup
		dialling.Go(func() { pcEnd.Dial(dialCtx, robotEnd.LocalAddrs()) })
		if err := pc.SendDatagram([]byte("x")); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		pcEnd.Close()
		if took := time.Since(start); took > session.CloseTimeout {
			t.Errorf("close took %v, want at most %v", took, session.CloseTimeout)
		}
		dialling.Wait()
	})(t)
}

type stuckConn struct {
	*simnet.SimConn
	stuck *atomic.Bool
	once  sync.Once
	free  chan struct{}
}

func (c *stuckConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if c.stuck.Load() {
		<-c.free
		return 0, net.ErrClosed
	}
	return c.SimConn.WriteTo(b, to)
}

func (c *stuckConn) Close() error {
	c.once.Do(func() { close(c.free) })
	return c.SimConn.Close()
}
