package transport

import (
	"context"
	"crypto/tls"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/quic-go/quic-go"

	"achbridge/bridge/transport/session"
)

// connectionCount is the number of attackers' addresses. Each attacker begins a handshake that it never
// finishes, and another one when that has failed.
const connectionCount = 160

// gag passes on a limited number of written packets. Received packets may raise the limit.
type gag struct {
	net.PacketConn
	remaining atomic.Int32
	given     func(b []byte) bool // whether a packet that was read gives one more
}

func (g *gag) WriteTo(b []byte, to net.Addr) (int, error) {
	if g.remaining.Add(-1) < 0 {
		return len(b), nil
	}
	return g.PacketConn.WriteTo(b, to)
}

func (g *gag) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := g.PacketConn.ReadFrom(b)
	if err == nil && g.given(b[:n]) {
		g.remaining.Store(g.again())
	}
	return n, from, err
}

// again returns the number of packets that follow a Retry.
func (g *gag) again() int32 { return 1 }

// isRetry reports whether a packet requests a proof of the address (RFC 9000 section 17.2.5).
func isRetry(b []byte) bool { return len(b) > 0 && b[0]&0xf0 == 0xf0 }

// attack keeps one handshake of an unknown peer unfinished, until it ends or ctx is done.
type attack func(ctx context.Context, bind func() net.PacketConn, robot *Endpoint)

// halfOverQUIC sends the first of the packets that a ClientHello takes.
func halfOverQUIC(ctx context.Context, bind func() net.PacketConn, robot *Endpoint) {
	overQUIC(ctx, bind, robot, slices.Repeat([]string{"a protocol with a long name"}, 100))
}

// overQUIC sends one packet, and one more after a Retry.
func overQUIC(ctx context.Context, bind func() net.PacketConn, robot *Endpoint, protocols []string) {
	conn := &gag{PacketConn: bind(), given: isRetry}
	defer conn.Close()
	conn.remaining.Store(1)
	transport := &quic.Transport{Conn: conn}
	defer transport.Close()
	conf := &tls.Config{NextProtos: protocols, InsecureSkipVerify: true, ServerName: "x",
		CurvePreferences: []tls.CurveID{tls.X25519}} // or no ClientHello goes into one packet
	if c, err := transport.Dial(ctx, robot.localAddr(), conf, &quic.Config{HandshakeIdleTimeout: 6 * time.Second}); err == nil {
		c.CloseWithError(0, "")
	}
}

func wholeOverQUIC(ctx context.Context, bind func() net.PacketConn, robot *Endpoint) {
	overQUIC(ctx, bind, robot, []string{session.ALPN})
}

// overSCTP presents a cookie, and then calls open to send packets.
func overSCTP(ctx context.Context, bind func() net.PacketConn, robot *Endpoint, open func(context.Context, *shimConn)) {
	conn := bind()
	defer conn.Close()
	if c, err := newShimConn(ctx, conn, robot.localAddr()); err == nil {
		open(ctx, c)
	}
}

func halfOverSCTP(ctx context.Context, bind func() net.PacketConn, robot *Endpoint) {
	overSCTP(ctx, bind, robot, func(ctx context.Context, conn *shimConn) {
		part := []byte{22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0x00, 0x20, 1, 0xff, 0, 0, 0, 0, 0, 0, 1, 0, 0x00, 0x14}
		conn.WriteTo(append(part, make([]byte, 20)...), robot.localAddr())
		ended := make([]byte, 100)
		stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
		conn.ReadFrom(ended)
	})
}

func wholeOverSCTP(ctx context.Context, bind func() net.PacketConn, robot *Endpoint) {
	overSCTP(ctx, bind, robot, func(ctx context.Context, shim *shimConn) {
		conn := &gag{PacketConn: shim, given: func([]byte) bool { return false }}
		conn.remaining.Store(1)
		c, err := dtls.ClientWithOptions(conn, robot.localAddr(), strangeDTLS()...)
		if err != nil {
			panic(err)
		}
		defer c.Close()
		c.HandshakeContext(ctx)
	})
}

var attacks = []struct {
	name   string
	sctp   bool
	attack attack
}{
	{"QUICHalf", false, halfOverQUIC},
	{"QUICWhole", false, wholeOverQUIC},
	{"SCTPHalf", true, halfOverSCTP},
	{"SCTPWhole", true, wholeOverSCTP},
}

// siege repeats an attack from many addresses.
type siege struct {
	do    attack
	pause time.Duration // pause before the next handshake
	bind  func(i int) net.PacketConn
}

// begin starts the attack and returns a function that ends it.
func (s siege) begin(robot *Endpoint) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range connectionCount {
		wg.Go(func() {
			offset := time.Duration(mathrand.Int64N(int64(time.Second)))
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
					return
				case <-time.After(offset):
					offset = s.pause
				}
				s.do(ctx, func() net.PacketConn { return s.bind(i) }, robot)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}
