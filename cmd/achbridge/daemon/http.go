package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

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
//	/why      the diagnosis of the mirror of=NAME, see pageWhy
//	/metrics  for Prometheus
//	/healthz  200 while the daemon answers
//	/readyz   200 while every mirror is live and every push accepted, as in
//	          status --check; otherwise 503 and the list of the others
//
// The caller must wrap the handler by service.ForOurHosts, which allows only our host names.
func (d *Daemon) httpRoutes(o *overview, f *feed) http.Handler {
	registry := prometheus.NewRegistry()
	m := newMetrics(func() status.Report { s, _ := o.now(); return s.Report }, d.info)
	m.hub = func() *api.Hub { s, _ := o.now(); return s.Hub }
	registry.MustRegister(m)
	mux := http.NewServeMux()
	mux.Handle("GET /", make(service.Places, mostBrowsers).Serve(page.Handler().ServeHTTP, tooManyClients))
	mux.Handle("GET /events", f)
	mux.Handle("GET /why", make(service.Places, mostDiagnoses).Serve(d.servePageWhy(o), tooManyDiagnoses))
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, DisableCompression: true})
	mux.Handle("GET /metrics", gzhttp.GzipHandler(metrics)) // four at a time; gzhttp compresses faster than promhttp
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		var err error
		if !d.node.Alive() {
			err = errors.New("the node has ended")
		}
		service.Health(w, err)
	})
	mux.Handle("GET /readyz", ready(&overview{sample: func() api.StatusReply { return api.StatusReply{Report: d.node.StatusNow()} }, good: readyGood}))
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

// mostBrowsers is the maximum number of concurrent requests for pages, and likewise for the feed. Together with the
// requests for metrics (4) and diagnoses these are fewer than service.MostConns. So there is always an idle
// connection that can be closed for a new one. Requests for health checks are not limited, since they take no time.
const mostBrowsers = 32

// mostDiagnoses is the maximum number of concurrent diagnoses for pages. Each observes the node for api.WhyWindow, and may search
// the network for a host.
const mostDiagnoses = 4

func (d *Daemon) servePageWhy(o *overview) http.HandlerFunc {
	answer := query(func(ctx context.Context, query url.Values) (api.WhyReport, error) {
		s, _ := o.now()
		return d.pageWhy(ctx, s.Report, query.Get("of"))
	})
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		answer(w, r)
	}
}

// pageWhy diagnoses a mirror of this host for the web page. The page needs no key. So name must be a mirror in r, a recent
// report, which keeps clients from making the daemon search the network for hosts of their choice. For the same reason the
// diagnosis does not describe the content of frames.
func (d *Daemon) pageWhy(ctx context.Context, r status.Report, name string) (api.WhyReport, error) {
	if !slices.ContainsFunc(r.Mirrors, func(m status.Mirror) bool { return m.Name == name }) {
		return api.WhyReport{}, fmt.Errorf("no mirror on %s is called %q%.0w", d.self.Host, name, fs.ErrNotExist)
	}
	s, err := d.snapshot(ctx, name, api.WhyWindow)
	if err != nil {
		return api.WhyReport{}, err
	}
	s.After = reportWithoutTypes(s.After)
	return whyReport(s), ctx.Err()
}

func tooManyDiagnoses(w http.ResponseWriter) {
	service.ReplyJSON(w, http.StatusServiceUnavailable, api.ErrorReply{Error: fmt.Sprintf("%d channels are being diagnosed already; ask again", mostDiagnoses)})
}

func tooManyClients(w http.ResponseWriter) {
	http.Error(w, fmt.Sprintf("%d requests are being answered already; ask again", mostBrowsers), http.StatusServiceUnavailable)
}
