package daemon

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"achbridge/bridge"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/page"
	"achbridge/cmd/achbridge/service"
)

// httpRoutes returns the handler for:
//
//	/         a web page for people (page/), fed by /events
//	/events   server-sent events, see feed
//	/metrics  for Prometheus
//	/healthz  200 while the daemon answers
//	/readyz   200 while every mirror is live and every push accepted, as in
//	          status --check; otherwise 503 and which is not
//
// The caller must wrap the handler by service.ForOurHosts, which allows only our host names.
func httpRoutes(node *bridge.Node, about func() api.DaemonInfo, o *overview, f *feed) http.Handler {
	registry := prometheus.NewRegistry()
	m := newMetrics(func() status.Report { s, _ := o.now(); return s.Report }, about)
	m.hub = func() *api.Hub { s, _ := o.now(); return s.Hub }
	registry.MustRegister(m)
	mux := http.NewServeMux()
	mux.Handle("GET /", make(service.Places, mostBrowsers).Serve(page.Handler().ServeHTTP, tooManyClients))
	mux.Handle("GET /events", f)
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, DisableCompression: true})
	mux.Handle("GET /metrics", gzhttp.GzipHandler(metrics)) // four at a time; gzhttp compresses faster than promhttp
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		var err error
		if !node.Alive() {
			err = errors.New("the node has ended")
		}
		service.Health(w, err)
	})
	mux.Handle("GET /readyz", ready(&overview{sample: func() api.StatusReply { return api.StatusReply{Report: node.StatusNow()} }, good: readyGood}))
	return mux
}

// ready returns the handler of /readyz. It reads a cached status: clients may ask at any rate,
// and reading the node's status locks the node's tables.
func ready(o *overview) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s, _ := o.now()
		service.Health(w, diagnose.NotAtWork(s.Report))
	})
}

// mostBrowsers limits the concurrent requests for pages, and those for the feed. Together with those
// for metrics (4) they stay below service.MostConns. So there is always an idle connection that can
// be closed for a new one. Health checks take no time.
const mostBrowsers = 32

func tooManyClients(w http.ResponseWriter) {
	http.Error(w, fmt.Sprintf("%d requests are being answered already; ask again", mostBrowsers), http.StatusServiceUnavailable)
}
