package status

import "time"

// Age is how old a mirror's newest frame was over time: each number is of
// the time that a reader had a frame of that age, not of the frames.
type Age struct {
	// UncertaintyMs is what every age may be off, by what is known of the origin's
	// clock. The age begins when the origin's daemon saw the frame in its channel.
	UncertaintyMs float64     `json:"uncertainty_ms"`
	Window        *AgeFigures `json:"window"` // the last ten seconds, up to one more; null: the age was not known then
	Total         *AgeFigures `json:"total"`  // since the first frame whose age was known
	// Buckets are how long the age was at most so much since the first frame.
	Buckets []AgeBucket `json:"-"`
}

// AgeFigures sums up an age over time. A quantile is right to 8 µs or 0.4 %.
type AgeFigures struct {
	MeanMs float64 `json:"mean_ms"`
	P50Ms  float64 `json:"p50_ms"`  // not exceeded during half of the time
	P99Ms  float64 `json:"p99_ms"`  // not exceeded during 99 % of the time
	PeakMs float64 `json:"peak_ms"` // the greatest, before a frame ended it or now
	// OverBudget is the share of the time, 0 to 1, in which the next frame had been due for
	// longer than the mirror's budget (fresh.Due), or only late frames came.
	OverBudget float64 `json:"over_budget"`
	WindowS    float64 `json:"window_s"` // over how much time; time of unknown age does not count
}

// AgeBucket is the time at ages of at most Le.
type AgeBucket struct{ Le, Time time.Duration }

// AgeReport is what the age of one mirror was during a window.
type AgeReport struct {
	Host     string   `json:"host"`
	Channel  string   `json:"channel"`
	Name     string   `json:"mirrored_as"`
	BudgetMs float64  `json:"budget_ms"`
	AgeMs    *float64 `json:"age_ms"`    // at its end; null while it cannot be told
	PeriodMs *float64 `json:"period_ms"` // as in MirrorStatus
	// UncertaintyMs is what every age may be off, by what is known of the origin's clock.
	UncertaintyMs float64     `json:"uncertainty_ms"`
	Window        *AgeFigures `json:"window"` // null: the age was not known
}

// AgeLately is what the age of a mirror was for a while.
type AgeLately struct {
	Name   string
	State  MirrorState // of the mirror, at its end
	MeanMs float64
	PeakMs float64
	Known  bool // whether the age was
}
