package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"achbridge/cmd/achbridge/ui"
)

// ListenHTTP opens an HTTP listener at the address of a setting, whose flag is named after it. Without a host in the address
// only this host can connect. It returns nil if the address is empty.
func ListenHTTP(setting, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	fix := fmt.Sprintf("--%s :PORT", setting)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, ui.Usage(fmt.Errorf("%s %s: %w", setting, address, err), fix)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, ui.Failure(fmt.Errorf("%s %s: the TCP port is in use", setting, address), "take another one: "+fix+" (:0 takes any)")
	}
	if err != nil {
		return nil, ui.Failure(fmt.Errorf("%s %s: %s", setting, address, CannotListen(err)), fix)
	}
	return ln, nil
}

// MostConns is the maximum number of connections to a server. Further ones close idle connections, see connLimiter.
const MostConns = 100

// ServeHTTP serves HTTP on ln until ctx ends, and closes ln.
func ServeHTTP(ctx context.Context, ln net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return ServeUntil(ctx, srv, ln, "http")
}

// ServeControl serves the requests of commands on ln, a control socket, until ctx ends, and closes ln. An answer has no
// time limit. The context of its request ends with ctx.
func ServeControl(ctx context.Context, ln net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	return ServeUntil(ctx, srv, ln, "control socket")
}

// ReplyJSON sends v as JSON with the status code.
func ReplyJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a write error means that the client has disconnected
}

// ServeUntil runs srv on ln until ctx ends, and closes ln. Errors begin with the text what.
func ServeUntil(ctx context.Context, srv *http.Server, ln net.Listener, what string) error {
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	c := &connLimiter{Listener: ln, most: MostConns}
	srv.Handler, srv.ConnContext = c.answering(srv.Handler), c.know
	if err := srv.Serve(c); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Health replies that the process works, or with the error err.
func Health(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	_, _ = io.WriteString(w, "ok\n") // a write error means that the client has disconnected
}

// CannotListen returns why the system cannot provide a socket.
func CannotListen(err error) string {
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case errno == syscall.EADDRNOTAVAIL:
		return "this host has no such address; see ip addr"
	case ok:
		return errno.Error()
	}
	return err.Error()
}
