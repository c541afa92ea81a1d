package status

import "time"

// Age describes the age of a mirror's newest frame over time. The figures are weighted by the time that a reader
// saw each age, not by frames.
type Age struct {
	// UncertaintyMs is the greatest error of every age, due to the estimate of the origin's clock. An age begins
	// when the origin's daemon saw the frame in its channel.
	UncertaintyMs float64     `json:"uncertainty_ms"`
	Window        *AgeFigures `json:"window"` // the last ten to eleven seconds; null if the age was unknown then
	Total         *AgeFigures `json:"total"`  // since the first frame whose age was known
	// Buckets hold, for each upper bound, the time at ages of at most that bound since the first frame.
	Buckets []AgeBucket `json:"-"`
}

// AgeFigures summarizes an age over time. Quantiles are accurate to 8 µs or 0.4 %.
type AgeFigures struct {
	MeanMs float64 `json:"mean_ms"`
	P50Ms  float64 `json:"p50_ms"`  // not exceeded during half of the time
	P99Ms  float64 `json:"p99_ms"`  // not exceeded during 99 % of the time
	PeakMs float64 `json:"peak_ms"` // greatest age, right before the next frame or at the end
	// OverBudget is the share of time, 0 to 1, in which the mirror was over its budget: the next frame was due
	// for longer than the budget (age.Due), or only late frames arrived.
	OverBudget float64 `json:"over_budget"`
	WindowS    float64 `json:"window_s"` // measured time in seconds, without time of unknown age
}

// AgeBucket is the time at ages of at most Le.
type AgeBucket struct{ Le, Time time.Duration }

// AgeReport describes the age of one mirror during a window.
type AgeReport struct {
	Host     string   `json:"host"`
	Channel  string   `json:"channel"`
	Name     string   `json:"mirrored_as"`
	BudgetMs float64  `json:"budget_ms"`
	AgeMs    *float64 `json:"age_ms"`    // age at the end of the window; null if unknown
	PeriodMs *float64 `json:"period_ms"` // as in Mirror
	// UncertaintyMs is the greatest error of every age, due to the estimate of the origin's clock.
	UncertaintyMs float64     `json:"uncertainty_ms"`
	Window        *AgeFigures `json:"window"` // null if the age was unknown
}

// AgeLately describes the age of a mirror since the previous sample.
type AgeLately struct {
	Name   string
	State  MirrorState // state of the mirror at the end
	MeanMs float64
	PeakMs float64
	Known  bool // whether the age was known
}
