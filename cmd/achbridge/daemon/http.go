package daemon

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

	"achbridge/bridge"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/page"
	"achbridge/cmd/achbridge/ui"
)

func listenHTTP(h config.HTTPAddress) (net.Listener, error) {
	if h == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(string(h))
	if err != nil {
		return nil, ui.Usage(fmt.Errorf("http %s: %w", h, err), "--http :PORT")
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, ui.Failure(fmt.Errorf("http %s: the TCP port is in use", h), "take another one: --http :PORT (:0 takes any)")
	}
	if err != nil {
		return nil, ui.Failure(fmt.Errorf("http %s: %s", h, cannotListen(err)), "--http :PORT")
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
//
// Whoever serves them lets in requests for hosts of ours alone, see forOurHosts.
func httpRoutes(node *bridge.Node, about func() api.DaemonInfo, o *overview, f *feed) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newMetrics(func() status.Report { s, _ := o.now(); return s.Report }, about))
	mux := http.NewServeMux()
	mux.Handle("GET /", make(waiting, mostPages).serve(page.Handler().ServeHTTP, crowded))
	mux.Handle("GET /events", f)
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, DisableCompression: true})
	mux.Handle("GET /metrics", gzhttp.GzipHandler(metrics)) // four at a time; which takes less time than promhttp does
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		var err error
		if !node.Alive() {
			err = errors.New("the node has ended")
		}
		health(w, err)
	})
	mux.Handle("GET /readyz", ready(&overview{look: func() api.StatusReply { return api.StatusReply{Report: node.StatusNow()} }, good: readyGood}))
	return mux
}

// ready answers without a look at the node each time: anybody may ask, as often as he likes,
// and the node's tables stand still for as long as it is looked at.
func ready(o *overview) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s, _ := o.now()
		health(w, diagnose.NotAtWork(s.Report))
	})
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

// mostConns is how many connections there are at a time; more make others leave, see
// crowd. So that there is always one that may, fewer are being answered at a time: those
// of metrics (4), pages, and browsers that follow (mostViewers). Health takes no time.
const (
	mostConns = 100
	mostPages = 32
)

func crowded(w http.ResponseWriter) {
	http.Error(w, fmt.Sprintf("%d requests are being answered already; ask again", mostPages), http.StatusServiceUnavailable)
}

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
	c := &crowd{Listener: ln, most: mostConns}
	srv.Handler, srv.ConnContext = c.answering(srv.Handler), c.know
	if err := srv.Serve(c); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
