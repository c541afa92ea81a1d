package service

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener for connections inside this process, so that tests can use virtual time.
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

// dial opens a connection to the listener.
func (p pipes) dial() net.Conn {
	here, there := net.Pipe()
	p <- there
	return here
}

// get sends a request over a new connection and returns the first line of the response.
func (p pipes) get(t *testing.T, path string) string {
	t.Helper()
	began := time.Now()
	conn := p.dial()
	defer conn.Close()
	line := request(t, conn, path)
	if took := time.Since(began); took > 0 {
		t.Errorf("%s: answered after %v, want at once", path, took)
	}
	return line
}

func request(t *testing.T, conn net.Conn, path string) string {
	t.Helper()
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Error(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(line)
}

// TestIdleConnectionsDoNotBlockOthers opens many connections that do nothing, send slowly, or stay open after
// a request. A new request is still answered at once, and a long response is not interrupted.
func TestIdleConnectionsDoNotBlockOthers(t *testing.T) {
	for name, ties := range map[string]func(*testing.T, net.Conn){
		"silent":      func(t *testing.T, conn net.Conn) {},
		"one letter":  func(t *testing.T, conn net.Conn) { _, _ = io.WriteString(conn, "G") },
		"half a line": func(t *testing.T, conn net.Conn) { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost") },
		"resting":     func(t *testing.T, conn net.Conn) { request(t, conn, "/healthz") },
		"many at once": func(t *testing.T, conn net.Conn) {
			go io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				mux := http.NewServeMux()
				mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { Health(w, nil) })
				mux.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, "x")
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
				p, done := make(pipes), make(chan error)
				go func() { done <- ServeHTTP(ctx, p, mux, slog.New(slog.DiscardHandler)) }()
				long := p.dial()
				request(t, long, "/long")
				for range 3 * (MostConns - 1) { // fills all connections several times
					conn := p.dial()
					defer conn.Close()
					ties(t, conn)
				}
				synctest.Wait()
				if got := p.get(t, "/healthz"); got != "HTTP/1.1 200 OK" {
					t.Errorf("/healthz: got %q, want 200 OK", got)
				}
				_ = long.SetReadDeadline(time.Now().Add(time.Millisecond))
				if _, err := long.Read(make([]byte, 1)); err == io.EOF {
					t.Error("the connection with the long response was closed, want it kept")
				}
				long.Close()
				cancel()
				close(p)
				<-done
			})
		})
	}
}
