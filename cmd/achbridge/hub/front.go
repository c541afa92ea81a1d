package hub

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"
)

// front accepts the TLS connections of hosts and passes on to the nats-server only messages that a host may send. The server's
// permissions do not cover reply subjects: it publishes its answer to any reply subject in a message. So the front accepts
// only reply subjects in the host's own inbox. It accepts no headers, which can contain subjects too.
//
// The server gets only authenticated connections, so unknown peers do not count against its connection limit.
type front struct {
	listener net.Listener
	nats     *server.Server
	tls      *tls.Config
	guard    *guard
	admit    func(host string) bool // counts a request of a host, and reports whether it is within the host's allowance
	unproved unproved

	end   context.CancelFunc
	conns sync.WaitGroup
}

// frontBuffer is the size of the front's buffers, in bytes: the size of the largest TLS record.
const frontBuffer = 16 << 10

// serve starts a goroutine that accepts connections until close.
func (f *front) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	f.end = cancel
	f.conns.Go(func() {
		for {
			conn, err := f.listener.Accept()
			switch {
			case err == nil:
				f.conns.Go(func() { f.carry(ctx, conn) })
			case errors.Is(err, net.ErrClosed):
				return
			default: // too many open files, until connections end
				time.Sleep(acceptAgain)
			}
		}
	})
}

// acceptAgain is the pause after a failed accept.
const acceptAgain = 100 * time.Millisecond

// close closes the listener and all connections, and waits for their goroutines.
func (f *front) close() {
	f.listener.Close()
	if f.end != nil {
		f.end()
	}
	f.conns.Wait()
}

// carry forwards messages between one host and the server until either closes its connection.
func (f *front) carry(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	f.unproved.enter(conn)
	host, err := f.prove(conn)
	f.unproved.leave(conn)
	if err != nil {
		return
	}
	inside, err := f.nats.InProcessConn()
	if err != nil {
		return // the server is stopping
	}
	defer inside.Close()
	defer context.AfterFunc(ctx, func() { inside.Close() })()
	var answers sync.WaitGroup
	answers.Go(func() {
		from := bufio.NewReaderSize(inside, frontBuffer)
		if _, err := from.ReadBytes('\n'); err == nil { // drops the server's INFO: the host has got one from the front
			_, _ = from.WriteTo(patient{host.conn})
		}
		conn.Close() // after the server's last message
	})
	refuse(host.conn, f.say(ctx, inside, host))
	inside.Close()
	answers.Wait()
}

// proxyLine returns the line from which the server learns the host's address (PROXY protocol, version 1).
func proxyLine(conn net.Conn) string {
	from, at := conn.RemoteAddr().(*net.TCPAddr), conn.LocalAddr().(*net.TCPAddr)
	family := "TCP6"
	if from.IP.To4() != nil && at.IP.To4() != nil {
		family = "TCP4"
	}
	return fmt.Sprintf("PROXY %s %s %s %d %d\r\n", family, from.IP, at.IP, from.Port, at.Port)
}

// patient is a connection with a timeout of writeLimit for each write.
type patient struct{ net.Conn }

func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// refuse sends a violation to the host as the reason why its connection is closed, in the form of a nats-server.
func refuse(conn net.Conn, err error) {
	var bad *violation
	if errors.As(err, &bad) {
		_ = conn.SetWriteDeadline(time.Now().Add(tlsLimit))
		_, _ = fmt.Fprintf(conn, "-ERR '%s'\r\n", bad.text)
	}
}

// A connection may send pullBurst fetches at once, then one every pullEvery. One fetch returns at most one frame.
const (
	pullBurst = 1000
	pullEvery = 100 * time.Microsecond
)

// say forwards the messages of a host to the server. It returns a *violation at the first message that is not allowed, or the
// error that ends the connection.
func (f *front) say(ctx context.Context, to io.Writer, host *hostConn) error {
	in, out := host.in, bufio.NewWriterSize(to, frontBuffer)
	if _, err := out.WriteString(proxyLine(host.conn) + host.connect); err != nil {
		return err
	}
	s, pulls := newSpeaker(host.name), rate.NewLimiter(rate.Every(pullEvery), pullBurst)
	for {
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		line, err := readLine(in)
		if err != nil {
			return err
		}
		m, err := s.allow(line)
		if err != nil {
			return err
		}
		dest := io.Writer(out)
		if m.isRequest && !f.admit(host.name) {
			dest = io.Discard // the host gets no answer
		}
		if _, err := dest.Write(line); err != nil {
			return err
		}
		if m.body != "" {
			if err := pulls.Wait(ctx); err != nil { // otherwise the server would queue all unanswered fetches
				return err
			}
			if got, err := in.Peek(len(m.body)); err != nil || string(got) != m.body {
				return errPull
			}
		}
		if _, err := io.CopyN(dest, in, int64(m.size)); err != nil {
			return err
		}
	}
}
