package hub

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"achbridge/cmd/achbridge/service"
)

// routes returns the handler for /metrics, for Prometheus, and /healthz, which returns 200 while the hub accepts hosts.
func (s *Server) routes() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics{s.report})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { service.Health(w, s.well()) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "achbridge hub: /metrics, /healthz\n") // fails only if the client has closed the connection
	})
	name, _ := os.Hostname()
	return service.ForOurHosts(mux, func() service.HostNames { return service.OwnNames(name, nil) })
}

// well returns an error if hosts cannot use the hub.
func (s *Server) well() error {
	if !s.nats.ReadyForConnections(time.Millisecond) || !s.nats.JetStreamEnabled() {
		return fmt.Errorf("the nats-server in it does not take hosts")
	}
	return nil
}

// metrics is a Prometheus collector that makes a report at each scrape.
type metrics struct{ report func() Report }

func metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("achbridge_hub_"+name, help, labels, nil)
}

var (
	buildInfo     = metric("build_info", "Always 1; the labels tell of the hub.", "version", "goversion")
	uptime        = metric("uptime_seconds", "Since the hub began.")
	streams       = metric("streams", "Channels of which the hub keeps the newest frame.")
	readers       = metric("readers", "Readers of these, each of one channel.")
	memory        = metric("memory_bytes", "Size of the frames that are kept.")
	memoryMax     = metric("memory_max_bytes", "What memory_bytes may become.")
	dropped       = metric("dropped_frames_total", "Frames that lost their place for want of memory.")
	hostConnected = metric("host_connected", "1 while the host is connected.", "host")
	hostWaiting   = metric("host_waiting_bytes", "What waits at the hub for the host to take it.", "host")
	hostBytes     = metric("host_bytes_total", "Contents of the messages that the host has sent and received.", "host", "direction")
	hostMessages  = metric("host_messages_total", "Messages that the host has sent and received.", "host", "direction")
)

// maxSeries limits the hosts that have their own series.
const maxSeries = 1000

// Describe sends nothing, since the set of hosts changes: metrics is an unchecked collector.
func (m metrics) Describe(chan<- *prometheus.Desc) {}

// Collect sends all series.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	r := m.report()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	send(buildInfo, gauge, 1, r.Version, runtime.Version())
	send(uptime, gauge, float64(r.UptimeMs)/1000)
	send(streams, gauge, float64(r.Streams))
	send(readers, gauge, float64(r.Readers))
	send(memory, gauge, float64(r.Memory))
	send(memoryMax, gauge, float64(r.MaxMemory))
	send(dropped, counter, float64(r.Dropped))
	for i, h := range r.Hosts {
		if i == maxSeries {
			break
		}
		host := strings.ToValidUTF8(h.Host, "?")
		connected := 0.0
		if h.Connected {
			connected = 1
		}
		send(hostConnected, gauge, connected, host)
		send(hostWaiting, gauge, float64(h.Waiting), host)
		send(hostBytes, counter, float64(h.Sent), host, "sent")
		send(hostBytes, counter, float64(h.Received), host, "received")
		send(hostMessages, counter, float64(h.SentCount), host, "sent")
		send(hostMessages, counter, float64(h.Messages), host, "received")
	}
}
