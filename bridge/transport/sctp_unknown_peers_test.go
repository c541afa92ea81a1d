package transport

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/logging"

	"achbridge/bridge/transport/session"
)

// shimConn sends records of DTLS to a listener over SCTP, behind a shim with a cookie. Package
// sctp documents the shim.
type shimConn struct {
	net.PacketConn
	shim []byte
}

const shimSize = 26

// newShimConn gets a cookie from the listener.
func newShimConn(ctx context.Context, conn net.PacketConn, to net.Addr) (*shimConn, error) {
	shim := append([]byte{0xac, 1}, make([]byte, shimSize-2)...)
	rand.Read(shim[2:10])
	answer := make([]byte, 2048)
	for answer[1] != 2 {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		conn.WriteTo(shim, to)
		conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		conn.ReadFrom(answer)
	}
	copy(shim[10:], answer[10:shimSize])
	shim[1] = 3
	return &shimConn{conn, shim}, conn.SetReadDeadline(time.Time{})
}

func (c *shimConn) WriteTo(b []byte, to net.Addr) (int, error) {
	n := len(b)
	if n == 24 && b[0] == 25 && b[4] == 0 { // pion/dtls puts a connection id before an alert in clear
		b = append(append([]byte{21}, b[1:11]...), 0, 2, b[n-3], b[n-2])
	}
	_, err := c.PacketConn.WriteTo(append(c.shim[:shimSize:shimSize], b...), to)
	return n, err
}

func (c *shimConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.PacketConn.ReadFrom(b)
	return copy(b, b[min(n, shimSize):n]), from, err
}

// strangeDTLS returns DTLS options that differ from those of our protocol.
func strangeDTLS() []dtls.ClientOption {
	return []dtls.ClientOption{
		dtls.WithInsecureSkipVerify(true), dtls.WithSupportedProtocols(session.ALPN),
		dtls.WithExtendedMasterSecret(dtls.RequireExtendedMasterSecret),
		dtls.WithConnectionIDGenerator(func() []byte { return []byte(rand.Text()[:8]) }),
		dtls.WithLoggerFactory(&logging.DefaultLoggerFactory{Writer: io.Discard, DefaultLogLevel: logging.LogLevelDisabled}),
	}
}

// dialDTLS dials with DTLS only, from 10.0.1.1:999.
func dialDTLS(t *testing.T, l *lab, e *Endpoint, options ...dtls.ClientOption) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	socket := l.bind(t, netip.MustParseAddrPort("10.0.1.1:999"))
	defer socket.Close()
	shim, err := newShimConn(ctx, socket, e.localAddr())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dtls.ClientWithOptions(shim, e.localAddr(), append(strangeDTLS(), options...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 100))
	return err
}

// A host with a valid address may begin handshakes and never complete them.
func TestHalfOpenHandshakesAreBoundedOverSCTP(t *testing.T) {
	withUnknownPeerOver(listenOverSCTP, func(t *testing.T, l *lab, robot *Endpoint) {
		places := placesOf(robot)
		pending := func() int {
			places.mu.Lock()
			defer places.mu.Unlock()
			return len(places.pending)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range maxGreetings + 20 {
			conn := l.bind(t, netip.AddrPortFrom(netip.MustParseAddr("10.0.1.1"), uint16(1000+i)))
			wg.Go(func() { halfOverSCTP(ctx, func() net.PacketConn { return conn }, robot) })
		}
		time.Sleep(10 * oneWay)
		if got := pending(); got != maxGreetings {
			t.Errorf("pending: got %d, want %d", got, maxGreetings)
		}
		time.Sleep(greetingTimeout + 2*oneWay)
		if got := pending(); got != 0 {
			t.Errorf("pending: got %d, want none after %v", got, greetingTimeout)
		}
		cancel()
		wg.Wait()
	})(t)
}
