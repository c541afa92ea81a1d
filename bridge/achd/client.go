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

// Pull is a client: it has a host with achd send the frames of one channel.
type Pull struct {
	Host, Port string // a name or an address, and the number of a TCP port
	Channel    string
	UDP        bool          // frames come as datagrams
	Newest     bool          // where the connection does not carry all frames, the newest; otherwise all, in order
	Period     time.Duration // between two frames at least; 0: none
	Dial       Dial          // nil: over the network
}

// Dial makes a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Begin is told the geometry of the channel and the address of its host, before the first frame. It returns the
// function that takes the frames, whose bytes are valid until it returns, or why there is to be none.
type Begin func(g localach.Geometry, from netip.Addr) (put func(frame []byte), err error)

// Run connects, asks and takes frames until ctx or the connection ends. It returns why; the error is never nil.
// It tries once: the caller waits a while before the next time.
func (p Pull) Run(ctx context.Context, begin Begin) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer func() { err = cmp.Or(context.Cause(ctx), err) }() // that sockets are closed then says less
	conn, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var udp *net.UDPConn
	if p.UDP {
		if udp, err = listenBeside(conn); err != nil {
			return err
		}
		defer udp.Close()
		defer context.AfterFunc(ctx, func() { udp.Close() })()
	}
	in := bufio.NewReaderSize(conn, readBuffer)
	told, err := p.ask(conn, in, udp)
	if err != nil {
		return err
	}
	g, err := told.complete(p.UDP)
	if err != nil {
		return err
	}
	from := addrOf(conn.RemoteAddr()).Addr()
	put, err := begin(g, from)
	if err != nil {
		return err
	}
	if udp == nil {
		return framesOf(in, largest(g), put)
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { // the connection is the host's sign of life
		_, err := in.ReadByte()
		end(ended(err))
		conn.Close()
	})
	defer conn.Close()
	return datagramsOf(ctx, udp, netip.AddrPortFrom(from, uint16(told.port)), largest(g), put)
}

// Time and bytes that a host with achd gets.
const (
	maxTimeDial = 5 * time.Second
	readBuffer  = 16 << 10
)

// A host that is gone without a word is noticed after some ten seconds: achd says nothing while there are no frames.
var signsOfLife = net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3}

func (p Pull) dial(ctx context.Context) (net.Conn, error) {
	network, dial := "tcp", p.Dial
	if p.UDP {
		network = "tcp4"
	}
	if dial == nil {
		dial = (&net.Dialer{KeepAliveConfig: signsOfLife}).DialContext
	}
	ctx, cancel := context.WithTimeout(ctx, maxTimeDial)
	defer cancel()
	conn, err := dial(ctx, network, net.JoinHostPort(p.Host, p.Port))
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // who is dialled the caller knows
	}
	return conn, err
}

// listenBeside opens a socket for datagrams at our end of a connection.
func listenBeside(conn net.Conn) (*net.UDPConn, error) {
	at := addrOf(conn.LocalAddr()).Addr()
	return net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
}

// ask writes the request and reads the answer.
func (p Pull) ask(conn net.Conn, in *bufio.Reader, udp *net.UDPConn) (a answer, err error) {
	_ = conn.SetDeadline(time.Now().Add(maxTimeAsks))
	defer conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, p.request(udp)); err != nil {
		return a, err
	}
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull), len(line) > maxLine:
			return a, fmt.Errorf("its answer has a line of more than %d bytes", maxLine)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return a, fmt.Errorf("it does not answer within %v: perhaps another program than achd listens there", maxTimeAsks)
		case err != nil:
			return a, ended(err)
		}
		if done, err := a.add(line[:len(line)-1]); done || err != nil {
			return a, err
		}
	}
}

// request is what achd's own client writes, in that order.
func (p Pull) request(udp *net.UDPConn) string {
	var b strings.Builder
	transport, last := "tcp", 0
	if udp != nil {
		transport = "udp"
		fmt.Fprintf(&b, "remote-port: %d\n", udp.LocalAddr().(*net.UDPAddr).Port)
	}
	if p.Newest {
		last = 1
	}
	fmt.Fprintf(&b, "channel-name: %s\ntransport: %s\nget-last: %d\ndirection: push\n", p.Channel, transport, last)
	if p.Period > 0 {
		fmt.Fprintf(&b, "period-ns: %d\n", p.Period.Nanoseconds())
	}
	b.WriteString(".\n")
	return b.String()
}

// ended is why a connection is over.
func ended(err error) error {
	switch {
	case err == nil:
		return errors.New("it said something where achd says nothing")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it closed the connection")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// framesOf hands on the frames of a TCP connection, of most bytes each, until it ends. Memory is taken as bytes come, so
// that a size alone costs nothing.
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

// datagramsOf hands on the datagrams of one sender until ctx ends, which closes the socket.
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
			continue // of somebody else, or nothing that the channel can hold
		}
		put(buf[:n])
	}
}
