package hub

import (
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// proxy is a proxy between a client and a hub. It keeps the data that it does not pass on.
type proxy struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	pairs    []*proxied
	holds    bool        // new connections get no answer
	shuts    bool        // new connections are closed
	brims    atomic.Bool // new connections accept almost no data while they are held
	wait     sync.WaitGroup
}

// proxied is a connection through the proxy.
type proxied struct {
	client, server net.Conn
	up, down       gate
	sent, received atomic.Int64 // bytes passed on, to the hub and from it
}

// gate is one direction of a connection, which can be shut.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed when the gate is open
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	is := g.open == nil
	if !is {
		select {
		case <-g.open:
			is = true
		default:
		}
	}
	switch {
	case open && !is:
		close(g.open)
	case !open && is:
		g.open = make(chan struct{})
	}
}

func (g *gate) pass() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = make(chan struct{})
		close(g.open)
	}
	return g.open
}

func startProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to}
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.each(func(c *proxied) {
			c.client.Close()
			c.server.Close()
			c.up.set(true)
			c.down.set(true)
		})
		p.wait.Wait()
	})
	return p
}

func (p *proxy) address() string { return "tls://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		shuts := p.shuts
		p.mu.Unlock()
		if p.brims.Load() {
			_ = client.(*net.TCPConn).SetReadBuffer(1)
		}
		if shuts {
			client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			client.Close()
			continue
		}
		c := &proxied{client: client, server: server}
		p.mu.Lock()
		if p.holds {
			c.up.set(false)
			c.down.set(false)
		}
		p.pairs = append(p.pairs, c)
		p.mu.Unlock()
		p.wait.Go(func() { p.copy(server, client, &c.up, &c.sent) })
		p.wait.Go(func() { p.copy(client, server, &c.down, &c.received) })
	}
}

func (p *proxy) copy(to, from net.Conn, g *gate, count *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil {
			if err != io.EOF {
				_ = to.(*net.TCPConn).SetLinger(0) // it was reset, so the other end is reset too
			}
			return
		}
		select {
		case <-g.pass():
		default:
			<-g.pass()
			if gone(from) {
				_ = to.(*net.TCPConn).SetLinger(0)
				return
			}
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
		count.Add(int64(n))
	}
}

// gone reports whether the remote end has reset a connection while no data was passed on. Data
// that was on a path when it was cut must not arrive later.
func gone(c net.Conn) bool {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	reset := false
	err = raw.Control(func(fd uintptr) {
		failed, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		reset = err != nil || failed != 0
	})
	return reset || err != nil
}

func (p *proxy) each(f func(*proxied)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.pairs {
		f(c)
	}
}

// meter returns a function that counts the bytes that the present connections have passed on
// since.
func (p *proxy) meter(bytes func(*proxied) int64) func() int64 {
	p.mu.Lock()
	pairs := slices.Clone(p.pairs)
	p.mu.Unlock()
	sum := func() (n int64) {
		for _, c := range pairs {
			n += bytes(c)
		}
		return n
	}
	before := sum()
	return func() int64 { return sum() - before }
}

// hold stops passing data on, on present and later connections.
func (p *proxy) hold() {
	p.each(func(c *proxied) {
		c.up.set(false)
		c.down.set(false)
	})
	p.holdNew()
}

// holdNew stops passing data on, on connections that begin from now on. The client keeps its
// present ones.
func (p *proxy) holdNew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = true
}

// holdOld stops passing data on, on the present connections.
func (p *proxy) holdOld() {
	p.hold()
	p.mu.Lock()
	p.holds = false
	p.mu.Unlock()
}

// release passes data on again, including the data that was held.
func (p *proxy) release() {
	p.mu.Lock()
	p.holds = false
	p.mu.Unlock()
	p.each(func(c *proxied) {
		c.up.set(true)
		c.down.set(true)
	})
}

// shut ends all connections, and refuses new ones until reopen.
func (p *proxy) shut() {
	p.mu.Lock()
	p.shuts = true
	p.mu.Unlock()
	p.each(func(c *proxied) {
		_ = c.client.(*net.TCPConn).SetLinger(0)
		c.client.Close()
		c.server.Close()
	})
}

func (p *proxy) reopen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shuts = false
}

// proxy starts a proxy for the hub.
func (h *testHub) proxy() *proxy {
	h.t.Helper()
	return startProxy(h.t, h.address()[len("tls://"):])
}
