package diagnose

import (
	"math"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
)

// UsedOf returns the share of its budget that a mirror uses: how long its next frame has been due,
// divided by the budget. It takes the greater of two times: the 99th percentile of the last
// ten seconds, and the present one. Above 1 the mirror is over its budget; NaN means unknown.
// model.js computes the same for the page.
func UsedOf(m status.Mirror) float64 {
	if m.PeriodMs == nil || m.AgeMs == nil {
		return math.NaN()
	}
	age := *m.AgeMs
	if m.Age != nil && m.Age.Window != nil {
		age = max(age, m.Age.Window.P99Ms)
	}
	return status.DueMs(age, *m.PeriodMs) / ui.Milliseconds(m.QoS.EffectiveBudget())
}

// HealthOf returns the health of the channel's mirror; at the origin, of its worst mirror on other
// hosts. It returns "" if there is no mirror.
func HealthOf(s Snapshot) (worst status.Health) {
	if !s.Self {
		if m, ok := MirrorOf(s.After, s.Host, s.Channel); ok {
			return m.Health()
		}
		return ""
	}
	for _, e := range s.After.Exports {
		if h := e.Health(); e.Channel == s.Channel && (worst == "" || h.Rank() > worst.Rank()) {
			worst = h
		}
	}
	return worst
}

// MarkOf returns the mark of a mirror's health, or of a push's state, if its other end is not authenticated; "" for others.
func MarkOf(unauthenticated bool) string {
	if unauthenticated {
		return "unauthenticated"
	}
	return ""
}

// NoteOf returns the problem of a mirror, or "". It is the mirror's reason, the cause of late frames, or
// the used share of the budget above 100 %. A mismatch of frames and layout follows.
func NoteOf(m status.Mirror) string {
	note := freshnessNote(m)
	switch {
	case m.Mismatch == nil:
		return note
	case note == "":
		return m.Mismatch.Why
	}
	return note + "; " + m.Mismatch.Why
}

func freshnessNote(m status.Mirror) string {
	switch used := UsedOf(m); {
	case m.Reason != "":
		return m.Reason
	case m.LateS > 0:
		return "no frame in time for " + ui.Seconds(m.LateS)
	case used > 1:
		return "over budget: " + ui.Percent(used)
	}
	return ""
}

// rests reports whether the next frame of a quiet channel has been due for no longer than the budget, or
// the one-way delay if that is longer.
func (f *flow) rests(due *float64) bool {
	most := f.budget()
	if f.allLate() {
		most += f.oneWayDelay
	}
	return due != nil && *due <= 1000*most
}

// overdue reports whether a mirror is over its budget at this moment.
func overdue(due *float64, qos rule.QoS) bool {
	return due != nil && *due > ui.Milliseconds(qos.EffectiveBudget())
}
