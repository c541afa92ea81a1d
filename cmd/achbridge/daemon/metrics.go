package daemon

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
)

// metrics is a Prometheus collector that reads the node's status at each scrape.
// Names follow the Prometheus conventions: seconds, bytes, _total for counters.
// The label channel has the name on this host; peer is the origin or the receiver.
type metrics struct {
	status func() status.Report
	about  func() api.DaemonInfo
	hub    func() *api.Hub

	mu   sync.Mutex
	sure map[outcomeKey]uint64 // last value of each series of frames_total, since a count may shrink
}

// maxSeries limits the mirrors, and the exports, that have their own series. The others
// are only counted, in omitted_channels.
const maxSeries = 1000

func newMetrics(status func() status.Report, about func() api.DaemonInfo) *metrics {
	return &metrics{status: status, about: about, hub: func() *api.Hub { return nil }, sure: map[outcomeKey]uint64{}}
}

func metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("achbridge_"+name, help, labels, nil)
}

var (
	buildInfo    = metric("build_info", "Always 1; the labels tell of the daemon.", "version", "goversion", "host", "network")
	uptime       = metric("uptime_seconds", "Since the daemon began.")
	cpuWait      = metric("processor_wait_ratio", "Share of the last seconds in which a thread of the daemon was ready to run but waited for a CPU.")
	omitted      = metric("omitted_channels", "Mirrors and exports that have no series of their own, there being too many.", "direction")
	hubUp        = metric("hub_connected", "1 while this host is connected to its hub.", "hub")
	hubRTT       = metric("hub_rtt_seconds", "Shortest round trip to the hub.", "hub")
	hubUnacked   = metric("hub_unacked_bytes", "Bytes that were sent to the hub and that it has not acknowledged.", "hub")
	linkUp       = metric("link_up", "1 while packets of the peer arrive, 0 while its link is silent.", "peer", "transport")
	linkRTT      = metric("link_rtt_seconds", "Round trip to the peer.", "peer")
	linkRate     = metric("link_rate_bytes_per_second", "What the way to the peer was measured to carry when it was last full.", "peer")
	linkSent     = metric("link_sent_packets_total", "Packets with frames that left for the peer, since the link came up.", "peer")
	linkLost     = metric("link_lost_packets_total", "Of those, the ones that did not arrive, by what the peer reports.", "peer")
	linkBytes    = metric("link_bytes_total", "Bytes of frames and reports over the link, since it came up.", "peer", "direction")
	clockOffset  = metric("clock_offset_seconds", "The peer's monotonic clock minus ours.", "peer")
	clockUnsure  = metric("clock_uncertainty_seconds", "What the clock offset may be off.", "peer")
	mirrorHealth = metric("mirror_health", "Always 1; the label health says how the mirror is: live, late, waiting, stale or refused.", "channel", "peer", "health")
	mirrorLive   = metric("mirror_live", "1 while the mirror is fed.", "channel", "peer")
	ageNow       = metric("age_now_seconds", "Age of the newest frame of a mirror.", "channel", "peer")
	ageAll       = metric("age_seconds", "Age of the newest frame of a mirror, as if looked at every millisecond: buckets count milliseconds.", "channel", "peer")
	ageMean      = metric("mean_age_seconds", "Age on the average of the last ten seconds.", "channel", "peer")
	ageP99       = metric("p99_age_seconds", "Age that was not exceeded in 99 % of the last ten seconds.", "channel", "peer")
	agePeak      = metric("peak_age_seconds", "Greatest age in the last ten seconds.", "channel", "peer")
	ageUnsure    = metric("age_uncertainty_seconds", "What ages may be off.", "channel", "peer")
	budget       = metric("budget_seconds", "What the mirror's latency budget is.", "channel", "peer")
	dueNow       = metric("due_seconds", "For how long the next frame of a mirror has been due: age less period, never below 0.", "channel", "peer")
	framePeriod  = metric("period_seconds", "Time between two frames that a mirror is to get, as they came lately.", "channel", "peer")
	overBudget   = metric("over_budget_seconds_total", "Time in which the next frame had been due for longer than the mirror's budget.", "channel", "peer")
	framesTotal  = metric("frames_total", "What became of the frames that the origin put.", "channel", "peer", "direction", "reason")
	muxWins      = metric("mux_input_wins", "1 for the input of a mux whose frames are put into the output, 0 for its other inputs.", "output", "input")
	eventsTotal  = metric("events_total", "Events by kind; achbridge events lists them.", "kind")
	lockHeld     = metric("operator_lock_held", "1 while a host holds the operator lock of a channel of this host, 0 while nothing comes from that host.", "channel", "holder")
	framesFlying = metric("frames_in_flight", "Frames whose outcome is not known yet.", "channel", "peer", "direction")
)

// Describe sends nothing, since the set of channels changes: metrics is an unchecked collector.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect sends all series.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	s := m.status()
	s.Mirrors = slices.DeleteFunc(s.Mirrors, func(c status.Mirror) bool { return c.Temporary }) // the unique names of temporary mirrors would make label cardinality unbounded
	m.mu.Lock()
	defer m.mu.Unlock()
	counted := map[outcomeKey]uint64{}
	about := m.about()
	gauge(out, buildInfo, 1, about.Version, runtime.Version(), s.Host, about.Network)
	gauge(out, uptime, s.UptimeS)
	if s.CPUWait != nil {
		gauge(out, cpuWait, *s.CPUWait)
	}
	for _, kind := range status.EventKinds {
		counter(out, eventsTotal, s.Events[kind], string(kind))
	}
	for _, l := range s.Locks {
		if l.Host == s.Host {
			gauge(out, lockHeld, truth(l.State == "held"), l.Channel, l.Holder)
		}
	}
	collectHub(out, m.hub())
	seen := map[string]bool{}
	for _, l := range s.Links {
		if !seen[l.Peer] {
			seen[l.Peer] = true
			collectLink(out, l)
		}
	}
	gauge(out, omitted, float64(max(0, len(s.Mirrors)-maxSeries)), "in")
	gauge(out, omitted, float64(max(0, len(s.Exports)-maxSeries)), "out")
	for _, c := range s.Mirrors[:min(len(s.Mirrors), maxSeries)] {
		collectMirror(out, c)
		m.collectFrames(out, counted, [3]string{c.Name, c.Host, "in"}, c.FrameCounters)
	}
	for _, e := range s.Exports[:min(len(s.Exports), maxSeries)] {
		m.collectFrames(out, counted, [3]string{e.Channel, e.Peer, "out"}, e.FrameCounters)
	}
	m.sure = counted
}

func collectHub(out chan<- prometheus.Metric, h *api.Hub) {
	if h == nil {
		return
	}
	gauge(out, hubUp, truth(h.Connected), h.Address)
	gauge(out, hubUnacked, float64(h.UnackedBytes), h.Address)
	if h.RTTms > 0 {
		gauge(out, hubRTT, h.RTTms/1000, h.Address)
	}
}

func collectLink(out chan<- prometheus.Metric, l status.Link) {
	gauge(out, linkUp, truth(l.State == status.LinkUp), l.Peer, l.Transport.String())
	gauge(out, linkRTT, l.RTTms/1000, l.Peer)
	counter(out, linkSent, l.Sent, l.Peer)
	counter(out, linkLost, l.Lost, l.Peer)
	counter(out, linkBytes, l.SentBytes, l.Peer, "out")
	counter(out, linkBytes, l.ReceivedBytes, l.Peer, "in")
	gauge(out, clockOffset, l.ClockOffsetMs/1000, l.Peer)
	gauge(out, clockUnsure, l.ClockUncertaintyMs/1000, l.Peer)
	if l.PathMbit != nil {
		gauge(out, linkRate, *l.PathMbit*1e6/8, l.Peer)
	}
}

func collectMirror(out chan<- prometheus.Metric, m status.Mirror) {
	gauge(out, mirrorLive, truth(m.State == status.MirrorLive), m.Name, m.Host)
	gauge(out, mirrorHealth, 1, m.Name, m.Host, m.Health().String())
	gauge(out, budget, m.QoS.EffectiveBudget().Seconds(), m.Name, m.Host)
	if m.Mux != nil {
		for _, in := range m.Mux.Inputs {
			gauge(out, muxWins, truth(in.Channel == m.Mux.Winner), m.Name, in.Channel)
		}
	}
	if m.AgeMs != nil {
		gauge(out, ageNow, *m.AgeMs/1000, m.Name, m.Host)
	}
	if m.PeriodMs != nil {
		gauge(out, framePeriod, *m.PeriodMs/1000, m.Name, m.Host)
	}
	if m.DueMs != nil {
		gauge(out, dueNow, *m.DueMs/1000, m.Name, m.Host)
	}
	if m.Age == nil {
		return
	}
	gauge(out, ageUnsure, m.Age.UncertaintyMs/1000, m.Name, m.Host)
	if m.Age.Window != nil {
		gauge(out, ageMean, m.Age.Window.MeanMs/1000, m.Name, m.Host)
		gauge(out, ageP99, m.Age.Window.P99Ms/1000, m.Name, m.Host)
		gauge(out, agePeak, m.Age.Window.PeakMs/1000, m.Name, m.Host)
	}
	t := m.Age.Total
	counter(out, overBudget, t.OverBudget*t.WindowS, m.Name, m.Host)
	buckets := map[float64]uint64{}
	for _, b := range m.Age.Buckets {
		buckets[b.Le.Seconds()] = uint64(b.Time / time.Millisecond)
	}
	count := t.WindowS * 1000
	out <- prometheus.MustNewConstHistogram(ageAll, uint64(count), t.MeanMs/1000*count, buckets, m.Name, m.Host)
}

// outcomeKey identifies one series of frames_total: channel, peer, direction and reason.
type outcomeKey struct {
	of     [3]string
	reason string
}

// takenBack limits how far a count may shrink because lost frames arrive after all. A
// count that shrinks by takenBack or more has been reset.
const takenBack = 100

// collectFrames sends the frame counters of a channel. Prometheus treats a counter that
// shrinks as reset. So after a small decrease, collectFrames repeats the last value until
// the count exceeds that value again.
func (m *metrics) collectFrames(out chan<- prometheus.Metric, counted map[outcomeKey]uint64, of [3]string, a ledger.FrameCounters) {
	for _, f := range a.Outcomes() {
		key, count := outcomeKey{of, f.Name}, f.Count
		if _, twice := counted[key]; twice {
			return
		}
		if sure := m.sure[key]; count < sure && sure-count < takenBack && count > 0 {
			count = sure
		}
		counted[key] = count
		counter(out, framesTotal, count, of[0], of[1], of[2], f.Name)
	}
	gauge(out, framesFlying, float64(a.InFlight), of[:]...)
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter[N uint64 | float64](out chan<- prometheus.Metric, d *prometheus.Desc, n N, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Metrics returns a collector for one status. Tests compare its values with those of other tools.
func Metrics(s status.Report) prometheus.Collector {
	return newMetrics(func() status.Report { return s }, func() api.DaemonInfo { return api.DaemonInfo{} })
}
