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

// client is one connection. The goroutine of serve owns it.
type client struct {
	s             *Server
	conn          net.Conn
	addr          netip.AddrPort
	clientRequest request // written once, before chosen is set
	chosen        bool    // c reads or writes its channel, which its host may not also do in the other direction; guarded by s.mu
	working       bool    // guarded by s.mu
	sent          atomic.Uint64
}

func (q *request) transport() string {
	if q.udp {
		return "udp"
	}
	return "tcp"
}

// serve answers the request, then sends or receives frames until the client disconnects (nil), ctx ends, or an error
// occurs.
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
		return nil // the client has disconnected
	}
	c.s.mu.Lock()
	c.working = true
	c.s.mu.Unlock()
	if !c.clientRequest.put || c.clientRequest.udp {
		work.Go(func() { // runs until the connection is closed
			defer cancel()
			c.listen(in)
		})
	}
	if err := feed(ctx); !errors.Is(err, errLeft) {
		return err
	}
	return nil
}

// prepare prepares the transfer that the client requested. feed transfers the frames, and done releases what prepare
// acquired. out is the socket for datagrams; nil means that frames go over TCP.
func (c *client) prepare(ch *localach.Channel, in *bufio.Reader) (feed func(context.Context) error, done func(), out net.Conn, err error) {
	if c.clientRequest.udp {
		if out, err = c.dialUDP(); err != nil {
			return nil, nil, nil, err
		}
	}
	if !c.clientRequest.put {
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
		done, err := c.clientRequest.add(line[:len(line)-1])
		if err != nil {
			return nil, err
		}
		if done {
			_ = c.conn.SetReadDeadline(time.Time{})
			return in, c.clientRequest.complete()
		}
	}
}

// open opens the requested channel.
func (c *client) open() (*localach.Channel, error) {
	if err := localach.CheckName(c.clientRequest.channel); err != nil {
		return nil, cannotOpen("", err)
	}
	may, open := c.s.mayRead, c.s.cfg.Dir.TryOpenToRead
	if c.clientRequest.put {
		may, open = c.s.mayWrite, c.s.cfg.Dir.TryOpen
	}
	if err := may(c.addr.Addr(), c.clientRequest.channel); err != nil {
		return nil, err
	}
	ch, err := open(c.clientRequest.channel)
	if err != nil {
		return nil, cannotOpen(c.clientRequest.channel, err)
	}
	if err := ch.Check(); err != nil {
		ch.Close()
		return nil, cannotOpen(c.clientRequest.channel, err)
	}
	return ch, nil
}

// dialUDP opens the socket for datagrams.
func (c *client) dialUDP() (net.Conn, error) {
	if !c.addr.Addr().Is4() {
		return nil, &refusal{noSupport, "achd has UDP over IPv4 only"}
	}
	local := addrOf(c.conn.LocalAddr())
	conn, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local.Addr(), 0)),
		net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.addr.Addr(), uint16(c.clientRequest.remotePort))))
	if err != nil {
		return nil, &refusal{noSupport, "no UDP socket"}
	}
	return conn, nil
}

// Limits of time and bytes when a client's connection ends.
const (
	maxTimeWrite = 30 * time.Second
	lastWords    = time.Second
	lastBytes    = 64 << 10
)

// write writes to the connection with a deadline, so that a client that does not read cannot block it.
func (c *client) write(b []byte) error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(maxTimeWrite))
	_, err := c.conn.Write(b)
	return err
}

var errMute = fmt.Errorf("its request did not end within %v", maxTimeAsks)

// refuse sends the client a *refusal and returns it. It returns errMute for a request that did not end in time, and nil
// for other errors, such as a client that disconnected before its request.
func (c *client) refuse(err error) error {
	r, ok := errors.AsType[*refusal](err)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errMute
	case !ok:
		return nil
	}
	if c.write(r.reply()) == nil {
		// Closing a socket with unread bytes would reset the connection, and the client could lose the reply.
		_ = c.conn.SetReadDeadline(time.Now().Add(lastWords))
		if t, ok := c.conn.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
		_, _ = io.CopyN(io.Discard, c.conn, lastBytes)
	}
	return err
}

// listen returns when the client has disconnected. It ignores bytes after the request, except with UDP: there any byte
// ends the connection, as in achd.
func (c *client) listen(in *bufio.Reader) {
	for {
		if _, err := in.Discard(1); err != nil || c.clientRequest.udp {
			return
		}
	}
}
