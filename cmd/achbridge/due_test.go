package main

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/diagnose"
)

// dueCase is a mirror and the share of its budget that it uses. A share of null means unknown.
type dueCase struct {
	What     string   `json:"what"`
	AgeMs    *float64 `json:"age_ms"`
	P99Ms    *float64 `json:"p99_ms"`
	PeriodMs *float64 `json:"period_ms"`
	BudgetMs float64  `json:"budget_ms"`
	Used     *float64 `json:"used"`
}

func (c dueCase) mirror() status.Mirror {
	m := status.Mirror{AgeMs: c.AgeMs, PeriodMs: c.PeriodMs, QoS: rule.QoS{Budget: time.Duration(c.BudgetMs * 1e6)}}
	if c.P99Ms != nil {
		m.Age = &status.Age{Window: &status.AgeFigures{P99Ms: *c.P99Ms}}
	}
	return m
}

func (c dueCase) compare(t *testing.T, by string, got *float64) {
	t.Helper()
	switch {
	case got == nil && c.Used == nil:
	case got == nil || c.Used == nil || math.Abs(*got-*c.Used) > 1e-6:
		t.Errorf("%s, %s: got %v, want %v", c.What, by, shown(got), shown(c.Used))
	}
}

func shown(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}

func dueCases(t *testing.T) (list []dueCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/due.json")
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestUsedBudgetInGoMatchesGoldenFile compares the used shares of budgets that Go code computes with
// the golden file. tryShares compares those that the page computes.
func TestUsedBudgetInGoMatchesGoldenFile(t *testing.T) {
	for _, c := range dueCases(t) {
		if used := diagnose.UsedOf(c.mirror()); math.IsNaN(used) {
			c.compare(t, "in Go", nil)
		} else {
			c.compare(t, "in Go", &used)
		}
	}
}

func tryShares(t *testing.T, b *browser) {
	for _, c := range dueCases(t) {
		m, err := json.Marshal(c.mirror())
		if err != nil {
			t.Fatal(err)
		}
		c.compare(t, "on the page", valueOf[*float64](b, `parts.used(`+string(m)+`)`))
	}
}
