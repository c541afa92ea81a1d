// Package rule defines the rules of mirrors, pushes, exports and accepted pushes: how they are written, checked, matched with
// channels and hosts, and which quality of service they ask for.
package rule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"achbridge/bridge/stamps"
	"achbridge/wire"
)

// QoS is the quality of service of a mirror, which its host requests from the origin. In the zero value all
// options have their defaults.
//
// Mapping to DDS: LIFESPAN is our budget, but the reader sets it, and the newest frame is delivered even after
// it (see Budget and Late). DEADLINE is our deadline, which a late frame does not meet. TRANSPORT_PRIORITY is
// our priority, TIME_BASED_FILTER our max_rate. RELIABILITY with HISTORY keep-all is our mode every, with
// keep-last 1 our mode newest. LATENCY_BUDGET, a hint for batching, has no counterpart: frames are sent as soon
// as the link can carry them.
type QoS struct {
	// Budget is the latency budget: how long after its capture a frame may be delivered. 0 means DefaultBudget.
	// A frame past its budget is neither sent nor retransmitted, except by last-value delivery: the newest frame
	// of the ring is sent late, after all other frames, unless a newer one replaces it. It is counted as
	// late_kept. Late determines how to handle frames that become late in flight. Use EffectiveBudget to read
	// Budget, except in tests.
	Budget   time.Duration
	MaxRate  Rate     // limit of frames a second; each interval gets the newest frame
	Priority Priority // 7 is the most urgent
	Mode     Mode
	Compress Compress
	Late     Late
	Class    Class

	// Deadline is the time without a frame after which the mirror is stale, and the writer of a command channel
	// lost. 0 means none. OnStale determines the content of a command channel then. Both are used only by the
	// mirror's host, and are not sent to the origin.
	Deadline time.Duration
	OnStale  OnStale

	// Meta gives the mirror a metadata channel, NAME.meta, see status.Meta. It is not sent to the origin either.
	Meta bool

	// Stamps names the time stamps in the frames, which the mirror's host shifts to its clock. Empty means that frames are
	// put unchanged. It is not sent to the origin, but a push can request it.
	Stamps stamps.Rule
}

// DefaultBudget is the latency budget of a mirror that does not set one.
const DefaultBudget = 100 * time.Millisecond

// EffectiveBudget returns the budget, or the default if none is set.
func (q QoS) EffectiveBudget() time.Duration {
	if q.Budget == 0 {
		return DefaultBudget
	}
	return q.Budget
}

// EffectiveLate returns the late-frame policy, or the default if none is set. It is always LateDrop for
// commands.
func (q QoS) EffectiveLate() Late {
	switch {
	case q.Class == Command:
		return LateDrop
	case q.Late == 0:
		return LateNewest
	}
	return q.Late
}

// parseBudget parses a duration above zero.
func parseBudget(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q: want a time above zero, as in 100ms or 1s", s)
	}
	return d, nil
}

// Check returns an error if options are out of range or contradict each other.
func (q QoS) Check() error {
	if q.Budget < 0 {
		return fmt.Errorf("budget %v: want a time above zero", q.Budget)
	}
	if q.Priority > Levels {
		return fmt.Errorf("priority %v: want 0 … 7", q.Priority)
	}
	if q.Mode == Every && (q.MaxRate != 0 || q.Class == Command) {
		return fmt.Errorf("mode every sends all frames, however late: it cannot be combined with max_rate or class command")
	}
	if q.Class == Command && q.Late != 0 && q.Late != LateDrop {
		return fmt.Errorf("class command never delivers late: it cannot be combined with late %v", q.Late)
	}
	if q.Deadline < 0 || q.Deadline > 0 && q.Deadline < leastDeadline {
		return fmt.Errorf("deadline %v: want 1ms at least, or none", q.Deadline)
	}
	if q.OnStale.File != "" && (q.Class != Command || q.Deadline == 0) {
		return fmt.Errorf("on_stale %v: only a command channel with a deadline gets a safe frame; give it class command and deadline TIME", q.OnStale)
	}
	return nil
}

// qosJSON is the JSON form of QoS in the control API and the status. It includes default values.
type qosJSON struct {
	BudgetMs  float64 `json:"budget_ms"`
	MaxRateHz float64 `json:"max_rate_hz,omitempty"`
	Priority  int     `json:"priority"`
	Mode      string  `json:"mode"`
	Compress  string  `json:"compress"`
	Late      string  `json:"late"`
	Fit       string  `json:"fit,omitempty"` // sent by older versions, see Removed
	Class     string  `json:"class"`

	DeadlineMs   float64 `json:"deadline_ms,omitempty"`
	OnStale      string  `json:"on_stale,omitempty"`
	OnStaleFrame []byte  `json:"on_stale_frame,omitempty"` // in requests; omitted in the status
	Meta         bool    `json:"meta,omitempty"`
	Stamps       string  `json:"stamps,omitempty"`
}

// MarshalJSON writes the effective values, including defaults.
func (q QoS) MarshalJSON() ([]byte, error) {
	v := qosJSON{
		BudgetMs: inMs(q.EffectiveBudget()), MaxRateHz: q.MaxRate.Hz(), Priority: q.Priority.Level(),
		Mode: q.Mode.String(), Compress: q.Compress.String(), Late: q.EffectiveLate().String(), Class: q.Class.String(),
		DeadlineMs: inMs(q.Deadline), Meta: q.Meta, Stamps: string(q.Stamps),
	}
	if q.OnStale.File != "" {
		v.OnStale, v.OnStaleFrame = q.OnStale.String(), []byte(q.OnStale.Frame)
	}
	return json.Marshal(v)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func inMs(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// WithoutFrame returns the QoS without the bytes of its safe frame, for the status.
func (q QoS) WithoutFrame() QoS {
	q.OnStale.Frame = ""
	return q
}

// UnmarshalJSON parses the output of MarshalJSON.
func (q *QoS) UnmarshalJSON(b []byte) error {
	v := qosJSON{Priority: 4, Mode: modes[0], Compress: compressions[0], Class: classes[0]}
	in := json.NewDecoder(bytes.NewReader(b))
	in.DisallowUnknownFields()
	if err := in.Decode(&v); err != nil {
		return fmt.Errorf("qos: %w", err)
	}
	*q = QoS{Meta: v.Meta}
	// In a fixed order, so that the first of several errors is always the same.
	for _, o := range [...]struct {
		key, value string
		unset      bool
	}{
		{"budget", number(v.BudgetMs) + "ms", v.BudgetMs == 0}, {"max_rate", number(v.MaxRateHz), v.MaxRateHz == 0},
		{"priority", strconv.Itoa(v.Priority), false}, {"mode", v.Mode, false}, {"compress", v.Compress, false},
		{"late", v.Late, v.Late == ""}, {"fit", v.Fit, v.Fit == "" || v.Fit == "drop"}, {"class", v.Class, false}, {"deadline", number(v.DeadlineMs) + "ms", v.DeadlineMs == 0},
		{"stamps", v.Stamps, v.Stamps == ""},
	} {
		if o.unset {
			continue
		}
		if err := q.Set(o.key, o.value, nil); err != nil {
			return fmt.Errorf("qos: %w", err)
		}
	}
	var err error
	if q.OnStale, err = onStaleOf(v.OnStale, v.OnStaleFrame); err != nil {
		return fmt.Errorf("qos: %w", err)
	}
	return q.Check()
}

// IsPastBudget reports whether a frame captured at captured is past its budget at now. captured is 0 if unknown;
// such a frame counts as past its budget.
func (q QoS) IsPastBudget(captured, now time.Duration) bool {
	return q.Mode != Every && (captured == 0 || now-captured > q.EffectiveBudget())
}

// Wire returns the QoS in the form of messages.
func (q QoS) Wire() wire.QoS {
	return wire.QoS{
		Budget: q.Budget, MaxRate: uint32(q.MaxRate), Priority: int(q.Priority),
		Mode: uint8(q.Mode), Compress: compressNumbers[q.Compress], Class: uint8(q.Class),
		Strict: q.Late == LateDrop && q.Class != Command,
	}
}

// QoSFromWire converts a peer's QoS. It returns an error that names the first value unknown to this version.
func QoSFromWire(w wire.QoS) (QoS, error) {
	compress := slices.Index(compressNumbers, w.Compress)
	q := QoS{
		Budget: w.Budget, MaxRate: Rate(w.MaxRate), Priority: Priority(w.Priority),
		Mode: Mode(w.Mode), Compress: Compress(compress), Class: Class(w.Class),
	}
	if w.Strict {
		q.Late = LateDrop
	}
	for _, e := range []struct {
		what    string
		v       uint8
		isKnown bool
	}{
		{"mode", w.Mode, int(w.Mode) < len(modes)}, {"compress", w.Compress, compress >= 0}, {"late", w.Late, w.Late == 0},
		{"class", w.Class, int(w.Class) < len(classes)},
	} {
		if !e.isKnown {
			return QoS{}, fmt.Errorf("%s %d is not known here: update the older achbridge", e.what, e.v)
		}
	}
	if w.Priority < 0 || w.Priority > Levels {
		return QoS{}, fmt.Errorf("priority %d: want 0 … 7", w.Priority-1)
	}
	return q, q.Check()
}
