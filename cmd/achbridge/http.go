package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"achbridge/bridge"
)

// httpAddress is where the daemon serves what anybody may read who reaches it; ""
// is nowhere. Without a host it is the loopback interface.
type httpAddress string

func (h *httpAddress) String() string { return string(*h) }
func (h *httpAddress) Type() string   { return "ADDRESS" }

func (h *httpAddress) Set(text string) error {
	if text == "" || text == "off" {
		*h = ""
		return nil
	}
	if _, err := net.ResolveTCPAddr("tcp", text); err != nil {
		return fmt.Errorf("%q: want :PORT, ADDRESS:PORT or off, as in :9476", text)
	}
	*h = httpAddress(text)
	return nil
}

func (h httpAddress) listen() (net.Listener, error) {
	if h == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(string(h))
	if err != nil {
		return nil, misused(fmt.Errorf("http %s: %w", h, err), "--http :PORT")
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, failed(fmt.Errorf("http %s: the TCP port is in use", h), "take another one: --http :PORT (:0 takes any)")
	}
	if err != nil {
		return nil, failed(fmt.Errorf("http %s: %w", h, errors.Unwrap(err)), "--http :PORT")
	}
	return ln, nil
}

// httpRoutes are the pages:
//
//	/         a web page for people (page/), fed by /events
//	/events   server-sent events, see feed
//	/metrics  for Prometheus
//	/healthz  200 while the daemon answers
//	/readyz   200 while every mirror is live and every push accepted, as in
//	          status --check; else 503 and which is not
func httpRoutes(node *bridge.Node, about func() daemonInfo, o *overview, f *feed) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newMetrics(func() bridge.Status { s, _ := o.now(); return s.Status }, about))
	mux := http.NewServeMux()
	mux.Handle("GET /", page())
	mux.Handle("GET /events", f)
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, DisableCompression: true})
	mux.Handle("GET /metrics", gzhttp.GzipHandler(metrics)) // which takes less time than promhttp does
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		var err error
		if !node.Alive() {
			err = errors.New("the node has ended")
		}
		health(w, err)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		health(w, idle(node.Glance()))
	})
	return mux
}

func health(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	_, _ = io.WriteString(w, "ok\n") // the asker is gone, or it works
}

// mostConns is how many connections are served at a time; who comes later waits.
const mostConns = 100

// serveHTTP answers on ln until ctx ends, and closes ln.
func serveHTTP(ctx context.Context, ln net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		MaxHeaderBytes:    maxRequest,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return serveUntil(ctx, srv, ln, "http")
}

// serveUntil has srv answer on ln until ctx ends, and closes ln. Its errors begin with what.
func serveUntil(ctx context.Context, srv *http.Server, ln net.Listener, what string) error {
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(netutil.LimitListener(ln, mostConns)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
