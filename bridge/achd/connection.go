package achd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"achbridge/localach"
)

// client is one connection. It belongs to the goroutine of serve.
type client struct {
	s       *Server
	conn    net.Conn
	addr    netip.AddrPort
	asked   request // written once, before chosen is set
	chosen  bool    // it has a way of its channel, which its host may not have the other way; guarded by s.mu
	working bool    // guarded by s.mu
	sent    atomic.Uint64
}

func (q *request) transport() string {
	if q.udp {
		return "udp"
	}
	return "tcp"
}

// serve answers the request and sends or takes frames until the client leaves (nil), ctx ends, or
// something is wrong.
func (c *client) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	defer c.conn.Close()
	in, err := c.read()
	if err != nil {
		return c.refuse(err)
	}
	ch, err := c.open()
	if err != nil {
		return c.refuse(err)
	}
	defer ch.Close()
	if !c.s.choose(c) {
		return c.refuse(&refusal{tryLater, "your host has this channel by achd the other way already"})
	}
	feed, done, out, err := c.prepare(ch, in)
	if err != nil {
		return c.refuse(err)
	}
	defer done()
	port := 0
	if out != nil {
		stopOut := context.AfterFunc(ctx, func() { out.Close() })
		defer stopOut()
		defer out.Close()
		port = out.LocalAddr().(*net.UDPAddr).Port
	}
	if err := c.write(accepted(port, ch.Geometry())); err != nil {
		return nil // it has left
	}
	c.s.mu.Lock()
	c.working = true
	c.s.mu.Unlock()
	if !c.asked.put || c.asked.udp {
		work.Go(func() { // until the connection is closed
			defer cancel()
			c.listen(in)
		})
	}
	if err := feed(ctx); !errors.Is(err, errLeft) {
		return err
	}
	return nil
}

// prepare makes ready what the client asked for: feed does it, done gives back what it took.
// out is the socket for datagrams; nil: over TCP.
func (c *client) prepare(ch *localach.Channel, in *bufio.Reader) (feed func(context.Context) error, done func(), out net.Conn, err error) {
	if c.asked.udp {
		if out, err = c.dialUDP(); err != nil {
			return nil, nil, nil, err
		}
	}
	if !c.asked.put {
		return c.newPull(ch, out).run, func() {}, out, nil
	}
	p, done, err := c.newPush(ch)
	if err != nil {
		if out != nil {
			out.Close()
		}
		return nil, nil, nil, err
	}
	if out != nil {
		return func(ctx context.Context) error { return p.datagrams(ctx, out) }, done, out, nil
	}
	return func(ctx context.Context) error { return p.stream(ctx, in) }, done, nil, nil
}

// read reads the headers.
func (c *client) read() (*bufio.Reader, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(maxTimeAsks))
	in := bufio.NewReaderSize(c.conn, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, &refusal{overflow, "Bad headers"}
		case err != nil:
			return nil, err
		}
		done, err := c.asked.add(line[:len(line)-1])
		if err != nil {
			return nil, err
		}
		if done {
			_ = c.conn.SetReadDeadline(time.Time{})
			return in, c.asked.complete()
		}
	}
}

// open opens the channel that was asked for.
func (c *client) open() (*localach.Channel, error) {
	if err := localach.CheckName(c.asked.channel); err != nil {
		return nil, cannotOpen("", err)
	}
	may := c.s.mayRead
	if c.asked.put {
		may = c.s.mayWrite
	}
	if err := may(c.addr.Addr(), c.asked.channel); err != nil {
		return nil, err
	}
	ch, err := c.s.cfg.Dir.TryOpen(c.asked.channel)
	if err != nil {
		return nil, cannotOpen(c.asked.channel, err)
	}
	if err := ch.Check(); err != nil {
		ch.Close()
		return nil, cannotOpen(c.asked.channel, err)
	}
	return ch, nil
}

// dialUDP opens the socket that datagrams leave from.
func (c *client) dialUDP() (net.Conn, error) {
	if !c.addr.Addr().Is4() {
		return nil, &refusal{noSupport, "achd has UDP over IPv4 only"}
	}
	local := addrOf(c.conn.LocalAddr())
	conn, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local.Addr(), 0)),
		net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.addr.Addr(), uint16(c.asked.remotePort))))
	if err != nil {
		return nil, &refusal{noSupport, "no UDP socket"}
	}
	return conn, nil
}

// Times and bytes that a client gets at its end.
const (
	maxTimeWrite = 30 * time.Second
	lastWords    = time.Second
	lastBytes    = 64 << 10
)

// write writes to the connection, which a client that never reads does not keep for ever.
func (c *client) write(b []byte) error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(maxTimeWrite))
	_, err := c.conn.Write(b)
	return err
}

var errMute = fmt.Errorf("its request did not end within %v", maxTimeAsks)

// refuse tells the client why it gets nothing, if err is for it, and returns err; nil when the
// client has left before it asked for anything.
func (c *client) refuse(err error) error {
	r, ok := errors.AsType[*refusal](err)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errMute
	case !ok:
		return nil
	}
	if c.write(r.reply()) == nil {
		// Closing with bytes unread would have the kernel take the reply back.
		_ = c.conn.SetReadDeadline(time.Now().Add(lastWords))
		if t, ok := c.conn.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
		_, _ = io.CopyN(io.Discard, c.conn, lastBytes)
	}
	return err
}

// listen returns when the client has left. What it says after its request is ignored, but for
// UDP: there any byte is the end, as achd has it.
func (c *client) listen(in *bufio.Reader) {
	for {
		if _, err := in.Discard(1); err != nil || c.asked.udp {
			return
		}
	}
}
