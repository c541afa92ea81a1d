package api

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"achbridge/cmd/achbridge/ui"
	"achbridge/testnet/await"
)

// The error names the control socket and the problem, not the HTTP request.
func TestClientErrorExplainsFailure(t *testing.T) {
	for _, c := range []struct {
		what, want string
		serve      func(net.Conn)
	}{
		{"silent", "the daemon did not answer within 50 ms", func(net.Conn) {}},
		{"ends", "the daemon ended before it answered", func(c net.Conn) { c.Close() }},
		{"ends during the answer", "the daemon ended before it answered", func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
			c.Close()
		}},
		{"invalid answer", "the answer cannot be read", func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{")
		}},
	} {
		path := filepath.Join(t.TempDir(), "sock")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				if _, err := conn.Read(make([]byte, 4096)); err == nil {
					c.serve(conn)
				}
			}
		}()
		limit := await.Limit
		if c.what == "silent" {
			limit = 50 * time.Millisecond
		}
		var v any
		_, err = New(path).Within(limit).Get(t.Context(), "/v1/status", &v)
		if want := "control socket " + path + ": " + c.want; err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", c.what, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "http://") {
			t.Errorf("%s: got %v, want no URL in it", c.what, err)
		}
	}
}

// The daemon of another user is named, but no command connects to it.
func TestErrorNamesSocketsOfOtherUsers(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "user.sock")
	ln, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan struct{})
	go func() {
		if conn, err := ln.Accept(); err == nil {
			conn.Close()
			close(accepted)
		}
	}()
	_, err = New(filepath.Join(dir, "root.sock"), other).Get(t.Context(), "/v1/status", new(any))
	if !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), "another user's may be") || ui.Fix(err) != "use it: --control "+other {
		t.Errorf("got %v, fix %q, want the socket of the other user", err, ui.Fix(err))
	}
	select {
	case <-accepted:
		t.Error("it was connected to")
	case <-time.After(50 * time.Millisecond):
	}
}
