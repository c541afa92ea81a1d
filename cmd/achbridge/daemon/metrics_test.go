package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
)

// watched returns the status of a host with one mirror. The mean age of the mirror over 100 s was
// 5 ms, and 2 s were over its budget.
func watched() status.Report {
	age, path, period, due := 4.0, 20.0, 1.0, 3.0
	figures := &status.AgeFigures{MeanMs: 5, P99Ms: 9, PeakMs: 250, OverBudget: 0.02, WindowS: 100}
	return status.Report{
		Host: "planner", UptimeS: 120,
		Links: []status.Link{{Peer: "krang", Transport: "quic", State: "up", RTTms: 2, PathMbit: &path, ClockOffsetMs: 1500, ClockUncertaintyMs: 1, Traffic: status.Traffic{Sent: 100, Lost: 3}}},
		Mirrors: []status.Mirror{{
			Host: "krang", Channel: "imu", Name: "krang.imu", State: "live", AgeMs: &age, PeriodMs: &period, DueMs: &due,
			Age: &status.Age{UncertaintyMs: 1, Window: figures, Total: figures, Buckets: []status.AgeBucket{
				{Le: 5 * time.Millisecond, Time: 60 * time.Second}, {Le: 10 * time.Millisecond, Time: 99 * time.Second},
			}},
			FrameCounters: ledger.FrameCounters{Offered: 1100, Delivered: 1000, Superseded: 80, Late: 15, InFlight: 5},
		}},
		Events:  map[status.EventKind]uint64{status.EventLinkUp: 2},
		Exports: []status.Subscription{{Channel: "goal", Peer: "krang", FrameCounters: ledger.FrameCounters{Offered: 7, Delivered: 7}}},
	}
}

func TestMetricsMatchStatus(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newMetrics(watched, func() api.DaemonInfo { return api.DaemonInfo{Version: "v1", Network: "cafe"} }))
	want := `
# HELP achbridge_age_seconds Age of the newest frame of a mirror, as if looked at every millisecond: buckets count milliseconds.
# TYPE achbridge_age_seconds histogram
achbridge_age_seconds_bucket{channel="krang.imu",peer="krang",le="0.005"} 60000
achbridge_age_seconds_bucket{channel="krang.imu",peer="krang",le="0.01"} 99000
achbridge_age_seconds_bucket{channel="krang.imu",peer="krang",le="+Inf"} 100000
achbridge_age_seconds_sum{channel="krang.imu",peer="krang"} 500
achbridge_age_seconds_count{channel="krang.imu",peer="krang"} 100000
# HELP achbridge_clock_offset_seconds The peer's monotonic clock minus ours.
# TYPE achbridge_clock_offset_seconds gauge
achbridge_clock_offset_seconds{peer="krang"} 1.5
# HELP achbridge_mirror_health Always 1; the label health says how the mirror is: live, late, waiting, stale or refused.
# TYPE achbridge_mirror_health gauge
achbridge_mirror_health{channel="krang.imu",health="live",peer="krang"} 1
# HELP achbridge_over_budget_seconds_total Time in which the next frame had been due for longer than the mirror's budget.
# TYPE achbridge_over_budget_seconds_total counter
achbridge_over_budget_seconds_total{channel="krang.imu",peer="krang"} 2
# HELP achbridge_due_seconds For how long the next frame of a mirror has been due: age less period, never below 0.
# TYPE achbridge_due_seconds gauge
achbridge_due_seconds{channel="krang.imu",peer="krang"} 0.003
# HELP achbridge_period_seconds Time between two frames that a mirror is to get, as they came lately.
# TYPE achbridge_period_seconds gauge
achbridge_period_seconds{channel="krang.imu",peer="krang"} 0.001
# HELP achbridge_link_rate_bytes_per_second What the way to the peer was measured to carry when it was last full.
# TYPE achbridge_link_rate_bytes_per_second gauge
achbridge_link_rate_bytes_per_second{peer="krang"} 2.5e+06
# HELP achbridge_link_rtt_seconds Round trip to the peer.
# TYPE achbridge_link_rtt_seconds gauge
achbridge_link_rtt_seconds{peer="krang"} 0.002
# HELP achbridge_peak_age_seconds Greatest age in the last ten seconds.
# TYPE achbridge_peak_age_seconds gauge
achbridge_peak_age_seconds{channel="krang.imu",peer="krang"} 0.25
# HELP achbridge_budget_seconds What the mirror's latency budget is.
# TYPE achbridge_budget_seconds gauge
achbridge_budget_seconds{channel="krang.imu",peer="krang"} 0.1
# HELP achbridge_mean_age_seconds Age on the average of the last ten seconds.
# TYPE achbridge_mean_age_seconds gauge
achbridge_mean_age_seconds{channel="krang.imu",peer="krang"} 0.005
# HELP achbridge_p99_age_seconds Age that was not exceeded in 99 % of the last ten seconds.
# TYPE achbridge_p99_age_seconds gauge
achbridge_p99_age_seconds{channel="krang.imu",peer="krang"} 0.009
# HELP achbridge_link_lost_packets_total Of those, the ones that did not arrive, by what the peer reports.
# TYPE achbridge_link_lost_packets_total counter
achbridge_link_lost_packets_total{peer="krang"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "achbridge_age_seconds", "achbridge_clock_offset_seconds",
		"achbridge_due_seconds", "achbridge_period_seconds", "achbridge_over_budget_seconds_total", "achbridge_mirror_health", "achbridge_link_rate_bytes_per_second", "achbridge_link_rtt_seconds", "achbridge_peak_age_seconds", "achbridge_budget_seconds",
		"achbridge_mean_age_seconds", "achbridge_p99_age_seconds", "achbridge_link_lost_packets_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("promlint: got %v, %v, want no problems", problems, err)
	}
	if got := testutil.CollectAndCount(newMetrics(watched, func() api.DaemonInfo { return api.DaemonInfo{} }), "achbridge_frames_total"); got != 18 {
		t.Errorf("got %d series of frames, want 9 for the mirror and 9 for the export", got)
	}
}

func TestMetricSeriesAreLimited(t *testing.T) {
	many := func() status.Report {
		s := watched()
		for i := range 5000 {
			m := s.Mirrors[0]
			m.Name = fmt.Sprint("m", i)
			s.Mirrors = append(s.Mirrors, m)
			s.Exports = append(s.Exports, s.Exports[0]) // a duplicate, which is exported once
		}
		return s
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newMetrics(many, func() api.DaemonInfo { return api.DaemonInfo{} }))
	if n, err := testutil.GatherAndCount(registry, "achbridge_frames_total"); err != nil || n != 9*(maxSeries+1) {
		t.Errorf("got %d series, %v, want those of %d mirrors and one export", n, err, maxSeries)
	}
	want := `
# HELP achbridge_omitted_channels Mirrors and exports that have no series of their own, there being too many.
# TYPE achbridge_omitted_channels gauge
achbridge_omitted_channels{direction="in"} 4001
achbridge_omitted_channels{direction="out"} 4001
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "achbridge_omitted_channels"); err != nil {
		t.Error(err)
	}
}

// The metrics of a mirror that receives only late frames count no frame as delivered.
func TestMetricsCountLateFramesAsLate(t *testing.T) {
	s := watched()
	s.Mirrors[0].LateS, s.Mirrors[0].FrameCounters = 100, ledger.FrameCounters{Offered: 1000, LateKept: 1000}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newMetrics(func() status.Report { return s }, func() api.DaemonInfo { return api.DaemonInfo{} }))
	want := `
# HELP achbridge_mirror_live 1 while the mirror is fed.
# TYPE achbridge_mirror_live gauge
achbridge_mirror_live{channel="krang.imu",peer="krang"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "achbridge_mirror_live"); err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			text := series.String()
			if f.GetName() != "achbridge_frames_total" || !strings.Contains(text, `"in"`) {
				continue
			}
			want := 0.0
			if strings.Contains(text, `"late_kept"`) {
				want = 1000
			}
			if got := series.GetCounter().GetValue(); got != want {
				t.Errorf("%s: got %v, want %v", text, got, want)
			}
		}
	}
}

func TestMetricsCounterDecreasesOnlyOnReset(t *testing.T) {
	s := watched()
	m := newMetrics(func() status.Report { return s }, func() api.DaemonInfo { return api.DaemonInfo{} })
	for _, c := range []struct{ late, want uint64 }{{15, 15}, {14, 15}, {15, 15}, {17, 17}, {0, 0}} {
		s.Mirrors[0].Late = c.late
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(m)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := -1.0
		for _, f := range families {
			for _, series := range f.GetMetric() {
				if text := series.String(); f.GetName() == "achbridge_frames_total" && strings.Contains(text, `"late"`) && strings.Contains(text, `"in"`) {
					got = series.GetCounter().GetValue()
				}
			}
		}
		if got != float64(c.want) {
			t.Errorf("late %d: got %v, want %d", c.late, got, c.want)
		}
	}
}
