package achd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"achbridge/localach"
)

// Remote is a channel of a host that runs achd, as a client requests it.
type Remote struct {
	Host, Port string // host name or address, and TCP port number
	Channel    string
	UDP        bool          // frames are sent as datagrams
	Newest     bool          // skip to the newest frame if the connection cannot carry all; otherwise all frames, in order
	Period     time.Duration // minimum interval between two frames; 0 means no limit
	Dial       Dial          // nil means DialNetwork
}

// Dial opens a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Pull connects, requests the frames and passes them on until ctx or the connection ends. It returns the reason; the
// error is never nil. It makes one attempt: the caller waits before the next one.
//
// Before the first frame, Pull calls begin with the channel's geometry and the host's address. begin returns the
// function that handles the frames, or an error if none are wanted. The bytes of a frame are valid until that function
// returns.
func (r Remote) Pull(ctx context.Context, begin func(localach.Geometry, netip.Addr) (put func([]byte), err error)) error {
	return r.contact(ctx, false, func(ctx context.Context, c *contact) error {
		put, err := begin(c.geometry, c.host.Addr())
		switch {
		case err != nil:
			return err
		case c.udp != nil:
			return datagramsOf(ctx, c.udp, c.host, largest(c.geometry), put)
		}
		return framesOf(c.in, largest(c.geometry), put)
	})
}

// Outgoing is a channel of this host whose frames a client sends.
type Outgoing struct {
	Channel *localach.Channel
	NewData NewData
	May     func() error // returns nil, or why the host may not have the frames; called every second
	Begun   func()       // called when the host begins to accept frames
}

// Push connects, and sends the frames written from then on, until ctx or the connection ends. It returns errors as Pull
// does. At most one frame waits in the kernel, so that the next one is read from the ring only when it can be sent.
func (r Remote) Push(ctx context.Context, of Outgoing) error {
	return r.contact(ctx, true, func(ctx context.Context, c *contact) error {
		s := &sender{
			ch: of.Channel, r: of.Channel.ReaderAfter(of.Channel.LastSeq()), out: c.conn, head: headSize, news: make(chan struct{}, 1),
			newData: of.NewData, may: of.May, take: func(int) bool { return true }, count: func() {}, newest: r.Newest, period: r.Period,
		}
		if c.udp != nil {
			s.out, s.head = toHost{c.udp, c.host}, 0
		}
		if err := s.check(); err != nil {
			return err
		}
		of.Begun()
		return s.run(ctx)
	})
}

// toHost is a socket that sends its datagrams to one address.
type toHost struct {
	*net.UDPConn
	host netip.AddrPort
}

func (t toHost) Write(b []byte) (int, error) { return t.WriteToUDPAddrPort(b, t.host) }

// contact is a connection on which the host has granted the request.
type contact struct {
	conn     net.Conn
	in       *bufio.Reader
	udp      *net.UDPConn   // nil means that frames are sent over conn
	host     netip.AddrPort // address and port of the host's datagrams
	geometry localach.Geometry
}

// contact connects, sends the request, calls use if the host grants it, and closes everything.
func (r Remote) contact(ctx context.Context, push bool, use func(context.Context, *contact) error) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := &contact{}
	if c.conn, err = r.dial(ctx); err != nil {
		return err
	}
	defer c.conn.Close()
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	if r.UDP {
		if c.udp, err = listenBeside(c.conn); err != nil {
			return err
		}
		defer c.udp.Close()
		defer context.AfterFunc(ctx, func() { c.udp.Close() })()
	}
	c.in = bufio.NewReaderSize(c.conn, readBuffer)
	reply, err := r.ask(c, push)
	if err != nil {
		return err
	}
	if c.geometry, err = reply.complete(r.UDP); err != nil {
		return err
	}
	c.host = netip.AddrPortFrom(addrOf(c.conn.RemoteAddr()).Addr(), uint16(reply.port))
	if push || r.UDP {
		var watch sync.WaitGroup
		defer watch.Wait()
		defer c.conn.Close()
		watch.Go(func() { // the end of the connection shows that the host is gone
			_, err := c.in.ReadByte()
			end(ended(err))
		})
	}
	err = use(ctx, c)
	return cmp.Or(context.Cause(ctx), err) // if ctx has ended, its cause explains more than the error of use, whose sockets were closed
}

// Limits of time and bytes for a host with achd.
const (
	maxTimeDial = 5 * time.Second
	readBuffer  = 16 << 10
)

// keepAliveConfig detects a host that has disappeared within about 10 seconds. achd sends nothing while there are no frames.
var keepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3}

// DialNetwork connects over the network.
func DialNetwork(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{KeepAliveConfig: keepAliveConfig}).DialContext(ctx, network, address)
}

func (r Remote) dial(ctx context.Context) (net.Conn, error) {
	network, dial := "tcp", r.Dial
	if r.UDP {
		network = "tcp4"
	}
	if dial == nil {
		dial = DialNetwork
	}
	ctx, cancel := context.WithTimeout(ctx, maxTimeDial)
	defer cancel()
	conn, err := dial(ctx, network, net.JoinHostPort(r.Host, r.Port))
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // the caller already knows the address that was dialled
	}
	return conn, err
}

// listenBeside opens a UDP socket at the local address of a connection.
func listenBeside(conn net.Conn) (*net.UDPConn, error) {
	at := addrOf(conn.LocalAddr()).Addr()
	return net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
}

// ask writes the request and reads the answer.
func (r Remote) ask(c *contact, push bool) (a answer, err error) {
	_ = c.conn.SetDeadline(time.Now().Add(maxTimeAsks))
	defer c.conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(c.conn, r.request(c.udp, push)); err != nil {
		return a, ended(err)
	}
	for {
		line, err := c.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull), len(line) > maxLine:
			return a, fmt.Errorf("its answer has a line of more than %d bytes", maxLine)
		case err != nil:
			return a, ended(err)
		}
		if done, err := a.add(line[:len(line)-1]); done || err != nil {
			return a, err
		}
	}
}

// request returns the request with the lines in the same order as achd's own client.
func (r Remote) request(udp *net.UDPConn, push bool) string {
	var b strings.Builder
	transport, last, server := "tcp", "", "push" // the key direction has the direction as the server sees it
	if push {
		server = "pull"
	}
	if udp != nil {
		transport = "udp"
		fmt.Fprintf(&b, "remote-port: %d\n", udp.LocalAddr().(*net.UDPAddr).Port)
	}
	if r.Newest {
		last = "get-last: 1\n" // not sent as 0, the default: achd before 1.2.1 refuses this key
	}
	fmt.Fprintf(&b, "channel-name: %s\ntransport: %s\n%sdirection: %s\n", r.Channel, transport, last, server)
	if r.Period > 0 {
		fmt.Fprintf(&b, "period-ns: %d\n", r.Period.Nanoseconds())
	}
	b.WriteString(".\n")
	return b.String()
}

// ended returns why a connection has ended.
func ended(err error) error {
	switch {
	case err == nil:
		return errors.New("it sent data where achd sends none")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errLeft
	case errors.Is(err, os.ErrDeadlineExceeded): // only reading the answer has a deadline
		return fmt.Errorf("no answer within %v: perhaps a program other than achd listens there", maxTimeAsks)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// framesOf passes on the frames of a TCP connection, of at most most bytes each, until it ends. It allocates memory as
// bytes arrive, so that a large size in a head costs nothing by itself.
func framesOf(in *bufio.Reader, most int, put func([]byte)) error {
	var buf []byte
	for {
		head, err := in.Peek(headSize)
		if err != nil {
			return ended(err)
		}
		size, err := sizeIn(head, most)
		if err != nil {
			return err
		}
		_, _ = in.Discard(headSize)
		for have := 0; have < size; {
			if have == len(buf) {
				buf = append(make([]byte, 0, min(size, max(2*have, roomAtFirst))), buf...)
				buf = buf[:cap(buf)]
			}
			upTo := min(size, len(buf))
			if _, err := io.ReadFull(in, buf[have:upTo]); err != nil {
				return ended(err)
			}
			have = upTo
		}
		put(buf[:size])
	}
}

// datagramsOf passes on the datagrams of one sender until ctx ends, which closes the socket.
func datagramsOf(ctx context.Context, in *net.UDPConn, from netip.AddrPort, most int, put func([]byte)) error {
	buf := make([]byte, maxDatagram+1)
	for {
		n, sender, err := in.ReadFromUDPAddrPort(buf)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return ended(err)
		case netip.AddrPortFrom(sender.Addr().Unmap(), sender.Port()) != from || n == 0 || n > most:
			continue // sent by another address, empty, or too large for the channel
		}
		put(buf[:n])
	}
}
