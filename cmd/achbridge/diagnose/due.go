package diagnose

import (
	"math"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
)

// UsedOf is the share of its budget that a mirror uses: for how long its next frame had
// been due in 99 % of the last ten seconds, or is due now if that is longer. Above 1 it
// is over its budget. Not a number: not known. The page has the same, in model.js.
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

// overdue reports whether a mirror is over its budget at this moment.
func overdue(due *float64, qos rule.QoS) bool {
	return due != nil && *due > ui.Milliseconds(qos.EffectiveBudget())
}
