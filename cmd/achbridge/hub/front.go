package hub

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// front accepts the connections of hosts, speaks TLS with them, and passes on to the nats-server only messages that a host may send. The
// server's permissions do not cover reply subjects: it publishes its answer to any subject that a message names as the reply. So the
// front accepts only reply subjects in the host's own inbox, and no headers, which can name subjects too.
type front struct {
	listener net.Listener
	nats     *server.Server
	tls      *tls.Config
	hostOf   func(key string) (name string, ok bool)
	admit    func(host string) bool // counts a request of a host, and reports whether it is within the host's allowance

	end   context.CancelFunc
	conns sync.WaitGroup
}

// frontBuffer is the size of a buffer of the front, in bytes: that of the largest TLS record.
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
			default: // too many files are open, until connections end
				time.Sleep(acceptAgain)
			}
		}
	})
}

// acceptAgain is how long the front waits after it could not accept a connection.
const acceptAgain = 100 * time.Millisecond

// close ends all connections.
func (f *front) close() {
	f.listener.Close()
	if f.end != nil {
		f.end()
	}
	f.conns.Wait()
}

// carry passes on messages between one host and the server until either closes its connection.
func (f *front) carry(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	inside, err := f.nats.InProcessConn()
	if err != nil {
		return // the server is stopping
	}
	defer inside.Close()
	defer context.AfterFunc(ctx, func() { conn.Close(); inside.Close() })()
	from := bufio.NewReaderSize(inside, frontBuffer)
	secure, err := f.greet(conn, inside, from)
	if err != nil {
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = from.WriteTo(patient{secure})
		conn.Close() // after the server's last message
	})
	refuse(secure, f.say(inside, secure))
	inside.Close()
	answers.Wait()
}

// greet passes on the server's greeting, with the note that TLS is required, and does the TLS handshake. from reads from inside.
func (f *front) greet(conn, inside net.Conn, from *bufio.Reader) (*tls.Conn, error) {
	if err := errors.Join(conn.SetDeadline(time.Now().Add(tlsLimit)), inside.SetDeadline(time.Now().Add(tlsLimit))); err != nil {
		return nil, err
	}
	line, err := from.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var info map[string]json.RawMessage
	if err := json.Unmarshal(bytes.TrimPrefix(line, []byte("INFO ")), &info); err != nil {
		return nil, err
	}
	info["tls_required"] = json.RawMessage("true")
	if line, err = json.Marshal(info); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(inside, proxyLine(conn)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "INFO %s\r\n", line); err != nil {
		return nil, err
	}
	secure := tls.Server(conn, f.tls)
	if err := secure.Handshake(); err != nil {
		return nil, err
	}
	return secure, errors.Join(conn.SetDeadline(time.Time{}), inside.SetDeadline(time.Time{}))
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

// patient is a connection on which each write may take writeLimit.
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

// say passes on the messages of a host. It returns a *violation at the first message that is not allowed, or the error that ends the
// connection.
func (f *front) say(to io.Writer, from io.Reader) error {
	in, out := bufio.NewReaderSize(from, frontBuffer), bufio.NewWriterSize(to, frontBuffer)
	s := newSpeaker()
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || len(line) > maxLine:
			return errUnknownLine
		case err != nil:
			return err
		}
		m, err := s.allow(line, f.hostOf)
		if err != nil {
			return err
		}
		dest := io.Writer(out)
		if m.isRequest && !f.admit(s.host) {
			dest = io.Discard // the host gets no answer
		}
		if _, err := dest.Write(line); err != nil {
			return err
		}
		if m.body != "" {
			if got, err := in.Peek(len(m.body)); err != nil || string(got) != m.body {
				return errPull
			}
		}
		if _, err := io.CopyN(dest, in, int64(m.size)); err != nil {
			return err
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}
