package daemon

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/service"
)

// pipes is a listener of connections inside this process, so that time may be virtual.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects, from nowhere in particular.
func (p pipes) dial() net.Conn {
	here, there := net.Pipe()
	p <- there
	return here
}

// TestWhoFollowsDoesNotShutReloadOut has more ask for what comes than there are
// connections.
func TestWhoFollowsDoesNotShutReloadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		c := &control{why: func(ctx context.Context, _ url.Values) (api.WhyReport, error) {
			<-ctx.Done()
			return api.WhyReport{}, ctx.Err()
		}, reload: func() (api.ReloadReply, error) { return api.ReloadReply{}, nil }, log: slog.New(slog.DiscardHandler)}
		p, done := make(pipes), make(chan error)
		go func() { done <- c.serve(ctx, p) }()
		for range service.MostConns {
			conn := p.dial()
			defer conn.Close()
			go func() {
				_, _ = io.WriteString(conn, "GET /v1/why?of=imu HTTP/1.1\r\nHost: achbridge\r\n\r\n")
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
		synctest.Wait()
		began := time.Now()
		conn := p.dial()
		defer conn.Close()
		_, _ = io.WriteString(conn, "POST /v1/reload HTTP/1.1\r\nHost: achbridge\r\nContent-Length: 2\r\n\r\n{}")
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 200") || time.Since(began) > 0 {
			t.Errorf("reload: got %q, %v after %v", line, err, time.Since(began))
		}
		cancel()
		close(p)
		<-done
	})
}
